package topicpolicies.client;

/**
 * Limits the number of things in flight and their total size in bytes; {@code enter} waits while the window is full. A thing that is larger
 * than the whole window enters alone.
 */
final class Window {
    private final int mostThings;
    private final int mostBytes;
    private int things;
    private long bytes;

    Window(int mostThings, int mostBytes) {
        this.mostThings = mostThings;
        this.mostBytes = mostBytes;
    }

    synchronized void enter(int size) throws InterruptedException {
        while (things >= mostThings || things > 0 && bytes + size > mostBytes) {
            wait();
        }
        things++;
        bytes += size;
    }

    synchronized void leave(int size) {
        things--;
        bytes -= size;
        notifyAll();
    }
}
