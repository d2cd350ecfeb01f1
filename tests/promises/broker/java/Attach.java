import com.sun.tools.attach.VirtualMachine;

/** Loads an agent into a running Java process. Arguments: its process id, the agent's jar, the agent's arguments. */
public final class Attach {
    private Attach() {
    }

    public static void main(String[] arguments) throws Exception {
        VirtualMachine machine = VirtualMachine.attach(arguments[0]);
        try {
            machine.loadAgent(arguments[1], arguments[2]);
        } finally {
            machine.detach();
        }
    }
}
