// Package topicpolicies is the Go client of the topic policies sidecar for Apache Pulsar.
//
// A [Client] does four things that nobody should write by hand:
//
//   - [Client.Update] changes the fields that a mask names, and no others.
//   - [Client.Edit] runs a function on a copy of a document and sends what differs, on the condition that nobody else changed it; if
//     somebody did, it runs again.
//   - [Client.Watch] follows documents: it resumes where it broke, and starts over with a snapshot where it can't.
//   - [Client.NewCache] keeps an always current copy of a namespace or topic in memory, with listeners.
//
// The policies themselves are the messages of the generated package topicpolicies/clients/go/topicpolicies/v1; those that are used most
// have a name here as well. Pointers to figures are made by proto.Int32 and its siblings of google.golang.org/protobuf/proto.
package topicpolicies
