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

// TestEmbedded_MatchesOfficialEmulator runs random programs on both emulators and compares the result of every step,
// including errors.
func TestEmbedded_MatchesOfficialEmulator(t *testing.T) {
	t.Parallel()
	if len(emulators()) < 2 {
		t.Skipf("the comparison needs both emulators; running: %v", kinds())
	}
	reference, candidate := dial(t, official), dial(t, inProcess)
	rapid.Check(t, func(t *rapid.T) {
		project := "p-" + uuid.NewString()
		steps := append([]step{drawFill(t)}, rapid.SliceOfN(rapid.Custom(drawStep), 1, 12).Draw(t, "program")...)
		want, got := newSession(t, reference, project), newSession(t, candidate, project)
		for i, step := range steps {
			expected, actual := step.run(want), step.run(got)
			if diff := cmp.Diff(expected, actual); diff != "" {
				t.Fatalf("step %d: %s (-official +embedded):\n%s\nlast error of official: %v\nlast error of "+
					"embedded: %v",
					i, step, diff, want.lastErr, got.lastErr)
			}
		}
	})
}

// session is a project on one emulator and everything a program has read there.
type session struct {
	t       *rapid.T
	service firestorepb.FirestoreClient
	// database is the full name.
	database string
	// times are the timestamps in the order in which they were read. The emulators' timestamps differ, but their order
	// is the same.
	times []string
	// updated are the update times of each document, newest last.
	updated map[string][]*timestamppb.Timestamp
	lastErr error
}

func newSession(t *rapid.T, conn *grpc.ClientConn, project string) *session {
	return &session{
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

func (s *session) name(id string) string { return s.database + "/documents/" + queried + "/" + id }

// format returns a document for comparison, without the name of the database and with relative times.
func (s *session) format(d *firestorepb.Document) string {
	if d == nil {
		return "no document"
	}
	fields := make([]string, 0, len(d.GetFields()))
	for name, v := range d.GetFields() {
		fields = append(fields, name+"="+s.formatValue(v))
	}
	slices.Sort(fields)
	return fmt.Sprintf("%s created %s updated %s %s", strings.TrimPrefix(d.GetName(), s.database),
		s.formatTime(d.GetCreateTime()),
		s.formatTime(d.GetUpdateTime()), strings.Join(fields, " "))
}

// latest is later than any time that programs write. Later times come from commits.
var latest = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// formatValue removes spaces, because prototext inserts them at random.
func (s *session) formatValue(v *firestorepb.Value) string {
	if m := v.GetMapValue(); m != nil {
		var fields []string
		for name, inner := range m.GetFields() {
			fields = append(fields, name+":"+s.formatValue(inner))
		}
		slices.Sort(fields)
		return "{" + strings.Join(fields, " ") + "}"
	}
	if t := v.GetTimestampValue(); t != nil && t.AsTime().After(latest) {
		return fmt.Sprintf("commit time, whole milliseconds: %t", t.GetNanos()%1e6 == 0)
	}
	text := strings.ReplaceAll(prototext.MarshalOptions{}.Format(v), s.database, "")
	return strings.Join(strings.Fields(text), "")
}

// formatTime names a time by the order in which it was first read.
func (s *session) formatTime(t *timestamppb.Timestamp) string {
	if t == nil {
		return "never"
	}
	text := t.AsTime().String()
	if !slices.Contains(s.times, text) {
		s.times = append(s.times, text)
	}
	return fmt.Sprintf("t%d", slices.Index(s.times, text))
}

// outcome returns the status code, for comparison. The messages of the emulators differ.
func (s *session) outcome(err error) string {
	s.lastErr = err
	return status.Code(err).String()
}

// readAll returns all documents of the program.
func (s *session) readAll(transaction []byte) string {
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
			s.recordUpdate(d.GetName(), d.GetUpdateTime())
		}
	}
	var lines []string
	for _, id := range documentIDs() {
		lines = append(lines, s.format(found[s.name(id)]))
	}
	return strings.Join(lines, "\n")
}

func (s *session) recordUpdate(name string, t *timestamppb.Timestamp) {
	seen := s.updated[name]
	if len(seen) == 0 || !seen[len(seen)-1].AsTime().Equal(t.AsTime()) {
		s.updated[name] = append(seen, t)
	}
}

// collect reads a stream to its end.
func collect[T any](open func(context.Context) (grpc.ServerStreamingClient[T], error)) ([]*T, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
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
