// Package topicpolicies is the Go client of the topic policies sidecar for Apache Pulsar.
//
// A [Client] makes all calls of the service. Its main methods are:
//
//   - [Client.Update] changes the fields that a mask names, and no others.
//   - [Client.Edit] runs a function on a copy of a document and sends the difference, on the condition that no other writer has changed the
//     document; if one has, it runs the function again.
//   - [Client.UpdateMany] makes many changes over one stream, and continues where it broke.
//   - [Client.Watch] follows documents: it resumes where it broke, and reports when a namespace starts over.
//   - [Client.Cache] keeps a live copy of a namespace or topic in memory, with listeners.
//
// The policies themselves are the messages of the generated package topicpolicies.example/clients/go/topicpolicies/v1; the most used ones
// have a name here as well. Use proto.Int32 and the like of google.golang.org/protobuf/proto for pointers to numbers.
package topicpolicies
