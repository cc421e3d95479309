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

// refusal is a request that an emulator takes or refuses.
type refusal struct {
	name string
	want codes.Code
	// lenient is what the official emulator answers where it takes more than the service; OK where it is as strict.
	lenient bool
	send    func(ctx context.Context, s firestorepb.FirestoreClient, database string) error
}

// writing is the commit of one document.
func writing(id string, fields map[string]*firestorepb.Value) func(context.Context, firestorepb.FirestoreClient,
	string) error {
	return func(ctx context.Context, s firestorepb.FirestoreClient, database string) error {
		_, err := s.Commit(ctx, &firestorepb.CommitRequest{Database: database, Writes: []*firestorepb.Write{{
			Operation: &firestorepb.Write_Update{Update: &firestorepb.Document{Name: database + "/documents/" + id,
				Fields: fields}},
		}}})
		return err
	}
}

// nested is maps in maps, so many.
func nested(depth int) *firestorepb.Value {
	v := integer(1)
	for range depth {
		v = object(map[string]*firestorepb.Value{"m": v})
	}
	return v
}

// sized are two fields with which the document c/sized has a size in bytes: its name has 16 + 2 + 6, every document 32,
// and the fields' names 4.
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

func refusals() []refusal {
	const ok, bad = codes.OK, codes.InvalidArgument
	return []refusal{
		{name: "a document", want: ok, lenient: false, send: writing("c/d", nil)},
		{name: "a document below another", want: ok, lenient: false, send: writing("c/d/e/f", nil)},
		{name: "a collection", want: bad, lenient: false, send: writing("c", nil)},
		{name: "a collection below a document", want: bad, lenient: false, send: writing("c/d/e", nil)},
		{name: "no id", want: bad, lenient: false, send: writing("c//", nil)},
		{name: "a reserved id", want: bad, lenient: false, send: writing("c/__x__", nil)},
		{name: "a reserved collection", want: bad, lenient: false, send: writing("__c__/x", nil)},
		{name: "an id that begins as a reserved one", want: ok, lenient: false, send: writing("c/__x", nil)},
		{name: "a dot", want: bad, lenient: false, send: writing("c/.", nil)},
		{name: "two dots", want: bad, lenient: false, send: writing("c/..", nil)},
		{name: "a long id", want: ok, lenient: false, send: writing("c/"+strings.Repeat("x", 1500), nil)},
		{name: "a longer id", want: bad, lenient: false, send: writing("c/"+strings.Repeat("x", 1501), nil)},
		{name: "a field without a name", want: bad, lenient: false, send: writing("c/d", one("", integer(1)))},
		{name: "a reserved field", want: bad, lenient: false, send: writing("c/d", one("__x__", integer(1)))},
		{name: "a field of any characters", want: ok, lenient: false,
			send: writing("c/d", one("a.b `c` / ü", integer(1)))},
		{name: "a value of no type", want: bad, lenient: false, send: writing("c/d", one("a", &firestorepb.Value{}))},
		{name: "an array in an array", want: bad, lenient: false, send: writing("c/d", one("a", list(list())))},
		{name: "an array in a map in an array", want: ok, lenient: false,
			send: writing("c/d", one("a", list(object(one("b", list())))))},
		{name: "a deep map", want: ok, lenient: false, send: writing("c/d", nested(20).GetMapValue().GetFields())},
		{name: "a deeper map", want: bad, lenient: true, send: writing("c/d", nested(21).GetMapValue().GetFields())},
		{name: "a place north of the pole", want: bad, lenient: false, send: writing("c/d", one("a", &firestorepb.Value{
			ValueType: &firestorepb.Value_GeoPointValue{GeoPointValue: &latlng.LatLng{Latitude: 91}},
		}))},
		{name: "a time before all", want: bad, lenient: false, send: writing("c/d", one("a", &firestorepb.Value{
			ValueType: &firestorepb.Value_TimestampValue{TimestampValue: &timestamppb.Timestamp{Seconds: -1 << 40}},
		}))},
		{name: "the largest document", want: ok, lenient: false, send: writing("c/sized", sized(1<<20))},
		{name: "a larger document", want: bad, lenient: false, send: writing("c/sized", sized(1<<20+1))},
		{name: "the largest value", want: ok, lenient: false, send: writing("c/d", one("a", bytes(1<<20-89)))},
		{name: "a larger value", want: bad, lenient: false, send: writing("c/d", one("a", bytes(1<<20-88)))},
		{name: "500 writes", want: ok, lenient: false, send: manyWrites(500)},
		{name: "501 writes", want: bad, lenient: true, send: manyWrites(501)},
		{name: "another database's document", want: bad, lenient: true,
			send: func(ctx context.Context, s firestorepb.FirestoreClient, database string) error {
				_, err := s.Commit(ctx, &firestorepb.CommitRequest{Database: database, Writes: []*firestorepb.Write{{
					Operation: &firestorepb.Write_Delete{Delete: "projects/other/databases/(default)/documents/c/d"},
				}}})
				return err
			}},
		{name: "an unknown transaction", want: bad, lenient: false,
			send: func(ctx context.Context, s firestorepb.FirestoreClient, database string) error {
				_, err := s.Commit(ctx, &firestorepb.CommitRequest{Database: database, Transaction: []byte("unknown")})
				return err
			}},
		{name: "a write in a read-only transaction", want: bad, lenient: false,
			send: func(ctx context.Context, s firestorepb.FirestoreClient, database string) error {
				begun, err := s.BeginTransaction(ctx,
					&firestorepb.BeginTransactionRequest{Database: database, Options: &firestorepb.TransactionOptions{
						Mode: &firestorepb.TransactionOptions_ReadOnly_{ReadOnly: &firestorepb.TransactionOptions_ReadOnly{}},
					}})
				if err != nil {
					return err
				}
				_, err = s.Commit(ctx, &firestorepb.CommitRequest{Database: database,
					Transaction: begun.GetTransaction(),
					Writes: []*firestorepb.Write{{
						Operation: &firestorepb.Write_Delete{Delete: database + "/documents/c/d"},
					}}})
				return err
			}},
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

// TestRefusals has every emulator refuse what the service refuses, but for what the official one is known to let pass.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, e := range emulators() {
		t.Run(e.Kind, func(t *testing.T) {
			t.Parallel()
			service := firestorepb.NewFirestoreClient(dial(t, e))
			for _, r := range refusals() {
				want := r.want
				if r.lenient && e == official {
					want = codes.OK
				}
				err := r.send(t.Context(), service, "projects/p-"+uuid.NewString()+"/databases/(default)")
				if status.Code(err) != want {
					t.Errorf("%s: %v, want %s", r.name, err, want)
				}
			}
		})
	}
}

// TestUnimplemented asks for what the embedded emulator does not have: it says so by name.
func TestUnimplemented(t *testing.T) {
	t.Parallel()
	if inProcess == nil {
		t.Skip("the embedded emulator was not chosen")
	}
	service := firestorepb.NewFirestoreClient(dial(t, inProcess))
	database := "projects/p-" + uuid.NewString() + "/databases/(default)"
	parent := database + "/documents"
	ask := func(q *firestorepb.StructuredQuery) func(context.Context) error {
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
		return ask(&firestorepb.StructuredQuery{Where: condition{"a", op, 0}.request(nil)})
	}
	for name, try := range map[string]func(context.Context) error{
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
		"collection group": ask(&firestorepb.StructuredQuery{
			From: []*firestorepb.StructuredQuery_CollectionSelector{{CollectionId: "c", AllDescendants: true}},
		}),
		"find_nearest": ask(&firestorepb.StructuredQuery{FindNearest: &firestorepb.StructuredQuery_FindNearest{}}),
		"OR": ask(&firestorepb.StructuredQuery{Where: &firestorepb.StructuredQuery_Filter{
			FilterType: &firestorepb.StructuredQuery_Filter_CompositeFilter{CompositeFilter: &firestorepb.StructuredQuery_CompositeFilter{
				Op: firestorepb.StructuredQuery_CompositeFilter_OR,
			}},
		}}),
		"read_time": func(ctx context.Context) error {
			_, err := collect(func(context.Context) (grpc.ServerStreamingClient[firestorepb.BatchGetDocumentsResponse],
				error) {
				return service.BatchGetDocuments(ctx, &firestorepb.BatchGetDocumentsRequest{
					Database: database, ConsistencySelector: &firestorepb.BatchGetDocumentsRequest_ReadTime{ReadTime: timestamppb.Now()},
				})
			})
			return err
		},
		"listening to a query": func(ctx context.Context) error {
			stream, err := service.Listen(ctx)
			if err != nil {
				return err
			}
			if err := stream.Send(&firestorepb.ListenRequest{Database: database,
				TargetChange: &firestorepb.ListenRequest_AddTarget{
					AddTarget: &firestorepb.Target{TargetId: 1,
						TargetType: &firestorepb.Target_Query{Query: &firestorepb.Target_QueryTarget{}}},
				}}); err != nil {
				return err
			}
			_, err = stream.Recv()
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
		if err := try(t.Context()); status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want UNIMPLEMENTED with the name", name, err)
		}
	}
}
