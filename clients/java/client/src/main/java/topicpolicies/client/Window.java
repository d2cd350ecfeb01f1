package topicpolicies.client;

/**
 * Room for so many things and so many bytes of them; whoever comes when it is full waits. One that is larger than all room comes in alone.
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
