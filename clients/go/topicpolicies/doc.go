// Package topicpolicies is the Go client of the topic policies sidecar for Apache Pulsar.
//
// A [Client] makes all calls of the service, and does what nobody should write by hand:
//
//   - [Client.Update] changes the fields that a mask names, and no others.
//   - [Client.Edit] runs a function on a copy of a document and sends what differs, on the condition that nobody else changed it; if
//     somebody did, it runs again.
//   - [Client.UpdateMany] makes many changes over one stream, and goes on where it broke.
//   - [Client.Watch] follows documents: it resumes where it broke, and says so where it begins anew.
//   - [Client.Cache] keeps an always current copy of a namespace or topic in memory, with listeners.
//
// The policies themselves are the messages of the generated package topicpolicies.example/clients/go/topicpolicies/v1; those that are used
// most have a name here as well. Pointers to figures are made by proto.Int32 and its siblings of google.golang.org/protobuf/proto.
package topicpolicies
