"""The rules of the sidecar, without I/O, a clock or an event loop: the packages around ``core`` await and send.

Each package imports those above it in this list, and none below:

    errors, reasons, names, traces   the types that all packages share
    policies                         documents, the events that carry them, and the policies that hold for a topic in the end
    rules                            what the brokers' admin API refuses
    changes                          a field mask and its values, compiled
    fold                             what each event of a log does to the head of its policy key
    chains                           the updates of one policy key, one after the other
    reading                          the heads of a namespace, and the watchers that follow them
"""
