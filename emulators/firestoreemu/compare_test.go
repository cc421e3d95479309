//go:build unix

package firestoreemu_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"agents.example/controlplane/emulators/firestoreemu"
)

// TestSameResults runs random programs against the official emulator and the embedded one, and wants the same results
// of every step, errors included.
func TestSameResults(t *testing.T) {
	t.Parallel()
	if len(emulators()) < 2 {
		t.Skipf("the comparison needs both emulators; here is only %v", kinds())
	}
	reference, other := dial(t, official), dial(t, inProcess)
	rapid.Check(t, func(t *rapid.T) {
		project := "p-" + uuid.NewString()
		steps := append([]step{drawFill(t)}, rapid.SliceOfN(rapid.Custom(drawStep), 1, 12).Draw(t, "program")...)
		want, got := newSide(t, reference, project), newSide(t, other, project)
		for i, step := range steps {
			expected, actual := step.run(want), step.run(got)
			if diff := cmp.Diff(expected, actual); diff != "" {
				t.Fatalf("step %d: %s (-official +embedded):\n%s\nthe official one says: %v\nthe embedded one says: %v",
					i, step, diff, want.said, got.said)
			}
		}
	})
}

// side is a project of one emulator, and what a program has seen there.
type side struct {
	t       *rapid.T
	service firestorepb.FirestoreClient
	// database is its name.
	database string
	// times are the times that were seen, in the order in which they were: times differ between emulators, and their
	// order does not.
	times []string
	// updated are the times that documents had, newest last.
	updated map[string][]*timestamppb.Timestamp
	// said is the last error.
	said error
}

func newSide(t *rapid.T, conn *grpc.ClientConn, project string) *side {
	return &side{
		t: t, service: firestorepb.NewFirestoreClient(conn), database: "projects/" + project + "/databases/(default)",
		updated: map[string][]*timestamppb.Timestamp{},
	}
}

func dial(t *testing.T, e *firestoreemu.Emulator) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(e.Host, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (s *side) name(id string) string { return s.database + "/documents/" + queried + "/" + id }

// text writes what was answered so that it can be compared: without the names of the database and of moments.
func (s *side) text(d *firestorepb.Document) string {
	if d == nil {
		return "nothing"
	}
	fields := make([]string, 0, len(d.GetFields()))
	for name, v := range d.GetFields() {
		fields = append(fields, name+"="+s.value(v))
	}
	slices.Sort(fields)
	return fmt.Sprintf("%s created %s updated %s %s", strings.TrimPrefix(d.GetName(), s.database),
		s.moment(d.GetCreateTime()),
		s.moment(d.GetUpdateTime()), strings.Join(fields, " "))
}

// latest is after all times that programs write themselves: later ones are of commits.
var latest = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// value writes a value; the text format has its fields in a fixed order, but spaces at random.
func (s *side) value(v *firestorepb.Value) string {
	if m := v.GetMapValue(); m != nil {
		var fields []string
		for name, inner := range m.GetFields() {
			fields = append(fields, name+":"+s.value(inner))
		}
		slices.Sort(fields)
		return "{" + strings.Join(fields, " ") + "}"
	}
	if t := v.GetTimestampValue(); t != nil && t.AsTime().After(latest) {
		return fmt.Sprintf("the time of a commit, whole milliseconds %t", t.GetNanos()%1e6 == 0)
	}
	text := strings.ReplaceAll(prototext.MarshalOptions{}.Format(v), s.database, "")
	return strings.Join(strings.Fields(text), "")
}

// moment names a time by when it was first seen.
func (s *side) moment(t *timestamppb.Timestamp) string {
	if t == nil {
		return "never"
	}
	text := t.AsTime().String()
	if !slices.Contains(s.times, text) {
		s.times = append(s.times, text)
	}
	return fmt.Sprintf("t%d", slices.Index(s.times, text))
}

// outcome is what is compared of an error. The words are the emulators' own.
func (s *side) outcome(err error) string {
	s.said = err
	return status.Code(err).String()
}

// state reads all documents of the program.
func (s *side) state(transaction []byte) string {
	request := &firestorepb.BatchGetDocumentsRequest{Database: s.database}
	for _, id := range documentIDs() {
		request.Documents = append(request.Documents, s.name(id))
	}
	if transaction != nil {
		request.ConsistencySelector = &firestorepb.BatchGetDocumentsRequest_Transaction{Transaction: transaction}
	}
	answers, err := collect(func(ctx context.Context) (grpc.ServerStreamingClient[firestorepb.BatchGetDocumentsResponse], error) {
		return s.service.BatchGetDocuments(ctx, request)
	})
	if err != nil {
		return s.outcome(err)
	}
	found := map[string]*firestorepb.Document{}
	for _, a := range answers {
		if d := a.GetFound(); d != nil {
			found[d.GetName()] = d
			s.see(d.GetName(), d.GetUpdateTime())
		}
	}
	var lines []string
	for _, id := range documentIDs() {
		lines = append(lines, s.text(found[s.name(id)]))
	}
	return strings.Join(lines, "\n")
}

func (s *side) see(name string, t *timestamppb.Timestamp) {
	seen := s.updated[name]
	if len(seen) == 0 || !seen[len(seen)-1].AsTime().Equal(t.AsTime()) {
		s.updated[name] = append(seen, t)
	}
}

// collect reads a stream to its end.
func collect[T any](open func(context.Context) (grpc.ServerStreamingClient[T], error)) ([]*T, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stream, err := open(ctx)
	if err != nil {
		return nil, err
	}
	var all []*T
	for {
		one, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		}
		all = append(all, one)
	}
}
