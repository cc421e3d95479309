//go:build unix

package proxy

import "slices"

// Tap sees the calls that may change something. Its methods are called concurrently and may block.
type Tap interface {
	// Before is called when a call has arrived. The service gets it only if Before returns true.
	Before(call string) (forward bool)
	// After is called when the service has answered. The caller gets the answer only if After returns true.
	After(call string) (answer bool)
}

// reading reports whether a gRPC method of Firestore, Pub/Sub or Secret Manager changes nothing. A method that is not
// listed counts as a change.
func reading(method string) bool {
	return slices.Contains([]string{
		"BatchGetDocuments", "GetDocument", "Listen", "ListDocuments", "RunAggregationQuery", "RunQuery",
		"AccessSecretVersion", "GetSecret", "GetSecretVersion", "ListSecrets", "ListSecretVersions",
	}, method)
}
