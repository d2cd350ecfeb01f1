"""The rules of the sidecar, without I/O: no asyncio, no gRPC, no Pulsar, and no clock of its own.

Everything here is ``(state, input) -> (state, effects)``; the rooms around it do the waiting and the sending. Each package uses those above
it in this list, and none below:

    errors, reasons, names   what everything speaks of
    policies                 documents, the events that carry them, and what holds for a topic in the end
    rules                    what brokers refuse
    changes                  a field mask and its values, compiled
    fold                     what each event of a log does to the head of its key
    chains                   the updates of one key, one after the other
    reading                  the heads of a namespace, and watches of them
"""
