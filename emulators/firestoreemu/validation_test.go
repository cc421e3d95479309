//go:build unix

package firestoreemu_test

import (
	"context"
	"strings"
	"testing"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/google/uuid"
	"google.golang.org/genproto/googleapis/type/latlng"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// validation is a request that Firestore accepts or refuses.
type validation struct {
	name string
	want codes.Code
	// lenient is set if the official emulator accepts the request although the service refuses it.
	lenient bool
	send    func(ctx context.Context, s firestorepb.FirestoreClient, database string) error
}

// writeDocument commits one document.
func writeDocument(id string, fields map[string]*firestorepb.Value) func(context.Context, firestorepb.FirestoreClient,
	string) error {
	return func(ctx context.Context, s firestorepb.FirestoreClient, database string) error {
		_, err := s.Commit(ctx, &firestorepb.CommitRequest{Database: database, Writes: []*firestorepb.Write{{
			Operation: &firestorepb.Write_Update{Update: &firestorepb.Document{
				Name:   database + "/documents/" + id,
				Fields: fields,
			}},
		}}})
		return err
	}
}

// nested returns maps nested to a depth.
func nested(depth int) *firestorepb.Value {
	v := integer(1)
	for range depth {
		v = object(map[string]*firestorepb.Value{"m": v})
	}
	return v
}

// sized returns two fields that make the document c/sized size bytes large. The name has 16 + 2 + 6 bytes, every
// document has 32 extra, and the field names have 4.
func sized(size int) map[string]*firestorepb.Value {
	half := size / 2
	return map[string]*firestorepb.Value{"a": bytes(half), "b": bytes(size - half - 16 - 2 - 6 - 32 - 4)}
}

func bytes(n int) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_BytesValue{BytesValue: make([]byte, n)}}
}

func one(name string, v *firestorepb.Value) map[string]*firestorepb.Value {
	return map[string]*firestorepb.Value{name: v}
}

func validations() []validation {
	const ok, bad = codes.OK, codes.InvalidArgument
	return []validation{
		{name: "a document", want: ok, send: writeDocument("c/d", nil)},
		{name: "a document below another", want: ok, send: writeDocument("c/d/e/f", nil)},
		{name: "the name of a collection", want: bad, send: writeDocument("c", nil)},
		{name: "the name of a subcollection", want: bad, send: writeDocument("c/d/e", nil)},
		{name: "an empty id", want: bad, send: writeDocument("c//", nil)},
		{name: "a reserved id", want: bad, send: writeDocument("c/__x__", nil)},
		{name: "a reserved collection", want: bad, send: writeDocument("__c__/x", nil)},
		{name: "an id that only begins with __", want: ok, send: writeDocument("c/__x", nil)},
		{name: "the id .", want: bad, send: writeDocument("c/.", nil)},
		{name: "the id ..", want: bad, send: writeDocument("c/..", nil)},
		{name: "the longest id", want: ok, send: writeDocument("c/"+strings.Repeat("x", 1500), nil)},
		{name: "an id that is one byte too long", want: bad, send: writeDocument("c/"+strings.Repeat("x", 1501), nil)},
		{name: "a field without a name", want: bad, send: writeDocument("c/d", one("", integer(1)))},
		{name: "a reserved field", want: bad, send: writeDocument("c/d", one("__x__", integer(1)))},
		{
			name: "a field of any characters", want: ok,
			send: writeDocument("c/d", one("a.b `c` / ü", integer(1))),
		},
		{name: "a value without a type", want: bad, send: writeDocument("c/d", one("a", &firestorepb.Value{}))},
		{name: "an array in an array", want: bad, send: writeDocument("c/d", one("a", list(list())))},
		{
			name: "an array in a map in an array", want: ok,
			send: writeDocument("c/d", one("a", list(object(one("b", list()))))),
		},
		{name: "the deepest map", want: ok, send: writeDocument("c/d", nested(20).GetMapValue().GetFields())},
		{
			name: "a map that is one level too deep", want: bad, lenient: true,
			send: writeDocument("c/d", nested(21).GetMapValue().GetFields()),
		},
		{name: "a latitude above 90", want: bad, send: writeDocument("c/d", one("a", &firestorepb.Value{
			ValueType: &firestorepb.Value_GeoPointValue{GeoPointValue: &latlng.LatLng{Latitude: 91}},
		}))},
		{name: "a time before year 1", want: bad, send: writeDocument("c/d", one("a", &firestorepb.Value{
			ValueType: &firestorepb.Value_TimestampValue{TimestampValue: &timestamppb.Timestamp{Seconds: -1 << 40}},
		}))},
		{name: "the largest document", want: ok, send: writeDocument("c/sized", sized(1<<20))},
		{name: "a document that is one byte too large", want: bad, send: writeDocument("c/sized", sized(1<<20+1))},
		{name: "the largest value", want: ok, send: writeDocument("c/d", one("a", bytes(1<<20-89)))},
		{name: "a value that is one byte too large", want: bad, send: writeDocument("c/d", one("a", bytes(1<<20-88)))},
		{name: "500 writes", want: ok, send: manyWrites(500)},
		{name: "501 writes", want: bad, lenient: true, send: manyWrites(501)},
		{
			name: "another database's document", want: bad, lenient: true,
			send: func(ctx context.Context, s firestorepb.FirestoreClient, database string) error {
				_, err := s.Commit(ctx, &firestorepb.CommitRequest{Database: database, Writes: []*firestorepb.Write{{
					Operation: &firestorepb.Write_Delete{Delete: "projects/other/databases/(default)/documents/c/d"},
				}}})
				return err
			},
		},
		{
			name: "an unknown transaction", want: bad,
			send: func(ctx context.Context, s firestorepb.FirestoreClient, database string) error {
				_, err := s.Commit(ctx, &firestorepb.CommitRequest{Database: database, Transaction: []byte("unknown")})
				return err
			},
		},
		{
			name: "a write in a read-only transaction", want: bad,
			send: func(ctx context.Context, s firestorepb.FirestoreClient, database string) error {
				begun, err := s.BeginTransaction(ctx,
					&firestorepb.BeginTransactionRequest{Database: database, Options: &firestorepb.TransactionOptions{
						Mode: &firestorepb.TransactionOptions_ReadOnly_{ReadOnly: &firestorepb.TransactionOptions_ReadOnly{}},
					}})
				if err != nil {
					return err
				}
				_, err = s.Commit(ctx, &firestorepb.CommitRequest{
					Database:    database,
					Transaction: begun.GetTransaction(),
					Writes: []*firestorepb.Write{{
						Operation: &firestorepb.Write_Delete{Delete: database + "/documents/c/d"},
					}},
				})
				return err
			},
		},
	}
}

func manyWrites(n int) func(context.Context, firestorepb.FirestoreClient, string) error {
	return func(ctx context.Context, s firestorepb.FirestoreClient, database string) error {
		r := &firestorepb.CommitRequest{Database: database}
		for range n {
			r.Writes = append(r.Writes,
				&firestorepb.Write{Operation: &firestorepb.Write_Delete{Delete: database + "/documents/c/" +
					uuid.NewString()}})
		}
		_, err := s.Commit(ctx, r)
		return err
	}
}

// TestCommit_ValidatesAsTheService: every emulator accepts and refuses the same requests as the service, except where
// the official one is known to be lenient.
func TestCommit_ValidatesAsTheService(t *testing.T) {
	t.Parallel()
	for _, e := range emulators() {
		t.Run(e.Kind, func(t *testing.T) {
			t.Parallel()
			service := firestorepb.NewFirestoreClient(dial(t, e))
			for _, r := range validations() {
				want := r.want
				if r.lenient && e == official {
					want = codes.OK
				}
				err := r.send(t.Context(), service, "projects/p-"+uuid.NewString()+"/databases/(default)")
				if status.Code(err) != want {
					t.Errorf("%s: error = %v, want %s", r.name, err, want)
				}
			}
		})
	}
}

func TestEmbedded_NamesUnimplementedFeatures(t *testing.T) {
	t.Parallel()
	if inProcess == nil {
		t.Skip("the embedded emulator was not chosen")
	}
	service := firestorepb.NewFirestoreClient(dial(t, inProcess))
	database := "projects/p-" + uuid.NewString() + "/databases/(default)"
	parent := database + "/documents"
	query := func(q *firestorepb.StructuredQuery) func(context.Context) error {
		if q.From == nil {
			q.From = []*firestorepb.StructuredQuery_CollectionSelector{{CollectionId: "c"}}
		}
		return func(ctx context.Context) error {
			_, err := collect(func(context.Context) (grpc.ServerStreamingClient[firestorepb.RunQueryResponse], error) {
				return service.RunQuery(ctx, &firestorepb.RunQueryRequest{
					Parent: parent, QueryType: &firestorepb.RunQueryRequest_StructuredQuery{StructuredQuery: q},
				})
			})
			return err
		}
	}
	where := func(op string) func(context.Context) error {
		return query(&firestorepb.StructuredQuery{Where: condition{"a", op, 0}.request(nil)})
	}
	for name, call := range map[string]func(context.Context) error{
		"ListDocuments": func(ctx context.Context) error {
			_, err := service.ListDocuments(ctx, &firestorepb.ListDocumentsRequest{Parent: parent, CollectionId: "c"})
			return err
		},
		"BatchWrite": func(ctx context.Context) error {
			_, err := service.BatchWrite(ctx, &firestorepb.BatchWriteRequest{Database: database})
			return err
		},
		"NOT_IN":             where("NOT_IN"),
		"ARRAY_CONTAINS_ANY": where("ARRAY_CONTAINS_ANY"),
		"collection group": query(&firestorepb.StructuredQuery{
			From: []*firestorepb.StructuredQuery_CollectionSelector{{CollectionId: "c", AllDescendants: true}},
		}),
		"find_nearest": query(&firestorepb.StructuredQuery{FindNearest: &firestorepb.StructuredQuery_FindNearest{}}),
		"OR": query(&firestorepb.StructuredQuery{Where: &firestorepb.StructuredQuery_Filter{
			FilterType: &firestorepb.StructuredQuery_Filter_CompositeFilter{CompositeFilter: &firestorepb.StructuredQuery_CompositeFilter{
				Op: firestorepb.StructuredQuery_CompositeFilter_OR,
			}},
		}}),
		"read_time": func(ctx context.Context) error {
			_, err := collect(func(context.Context) (grpc.ServerStreamingClient[firestorepb.BatchGetDocumentsResponse],
				error,
			) {
				return service.BatchGetDocuments(ctx, &firestorepb.BatchGetDocumentsRequest{
					Database: database, ConsistencySelector: &firestorepb.BatchGetDocumentsRequest_ReadTime{ReadTime: timestamppb.Now()},
				})
			})
			return err
		},
		"Maximum": func(ctx context.Context) error {
			_, err := service.Commit(ctx, &firestorepb.CommitRequest{Database: database, Writes: []*firestorepb.Write{{
				Operation: &firestorepb.Write_Update{Update: &firestorepb.Document{Name: parent + "/c/d"}},
				UpdateTransforms: []*firestorepb.DocumentTransform_FieldTransform{{
					FieldPath: "a", TransformType: &firestorepb.DocumentTransform_FieldTransform_Maximum{Maximum: integer(1)},
				}},
			}}})
			return err
		},
	} {
		if err := call(t.Context()); status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error = %v, want Unimplemented with the feature's name", name, err)
		}
	}
}
