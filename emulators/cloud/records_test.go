package cloud_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/emulators/cloud"
)

// records reads and changes the stored documents directly.
type records struct{ db *firestore.Client }

func openRecords(t *testing.T, c *cloud.Cloud) records {
	t.Helper()
	owner := func(ctx context.Context, method string, request, answer any, connection *grpc.ClientConn,
		invoke grpc.UnaryInvoker, o ...grpc.CallOption,
	) error {
		return invoke(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer owner"), method, request, answer,
			connection, o...)
	}
	stream := func(ctx context.Context, d *grpc.StreamDesc, connection *grpc.ClientConn, method string,
		open grpc.Streamer, o ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		return open(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer owner"), d, connection, method, o...)
	}
	connection, err := grpc.NewClient("passthrough:///"+c.Ready.FirestoreEmulatorHost,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUnaryInterceptor(owner),
		grpc.WithStreamInterceptor(stream))
	if err != nil {
		t.Fatal(err)
	}
	db, err := firestore.NewClient(t.Context(), c.Ready.ProjectID, option.WithGRPCConn(connection))
	if err != nil {
		t.Fatal(errors.Join(err, connection.Close()))
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return records{db}
}

// agent returns the document of an agent; nil if there is none.
func (r records) agent(ctx context.Context, id string) (map[string]any, error) {
	found, err := r.db.Collection("agents").Doc(id).Get(ctx)
	if status.Code(err) == codes.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return found.Data(), nil
}

// agents returns the documents of an organization's agents; of all organizations if it is empty.
func (r records) agents(ctx context.Context, organization string) ([]*firestore.DocumentSnapshot, error) {
	query := r.db.Collection("agents").Query
	if organization != "" {
		query = query.Where("organization_id", "==", organization)
	}
	var all []*firestore.DocumentSnapshot
	documents := query.Documents(ctx)
	defer documents.Stop()
	for {
		found, err := documents.Next()
		if errors.Is(err, iterator.Done) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, found)
	}
}

// age makes an organization's agents older, those of all organizations if it is empty: it moves every time in their
// records into the past. For the control plane that is as if the time had passed.
func (r records) age(ctx context.Context, organization string, by time.Duration) error {
	documents, err := r.agents(ctx, organization)
	if err != nil {
		return err
	}
	for _, d := range documents {
		if err := ageDocument(ctx, d, by); err != nil {
			return err
		}
	}
	return nil
}

// ageDocument starts over when a worker has changed the document in between.
func ageDocument(ctx context.Context, d *firestore.DocumentSnapshot, by time.Duration) error {
	for {
		var changes []firestore.Update
		for name, value := range d.Data() {
			// What was seen of pods keeps its time, as they do: a younger pod would have replaced another.
			if older, has := older(value, by); has && name != "serving_changes" {
				changes = append(changes, firestore.Update{Path: name, Value: older})
			}
		}
		_, err := d.Ref.Update(ctx, changes, firestore.LastUpdateTime(d.UpdateTime))
		switch status.Code(err) {
		case codes.FailedPrecondition, codes.Aborted:
		case codes.NotFound:
			return nil
		default:
			return err
		}
		if d, err = d.Ref.Get(ctx); status.Code(err) == codes.NotFound {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// older returns a value whose times are earlier, and whether it has any.
func older(value any, by time.Duration) (_ any, has bool) {
	switch v := value.(type) {
	case time.Time:
		return v.Add(-by), true
	case map[string]any:
		for name, field := range v {
			changed, found := older(field, by)
			v[name], has = changed, has || found
		}
	case []any:
		for i, element := range v {
			changed, found := older(element, by)
			v[i], has = changed, has || found
		}
	}
	return value, has
}

// converged reports whether the workers have done everything that was asked of an agent.
func (r records) converged(t *testing.T, id string) bool {
	t.Helper()
	a, err := r.agent(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return a != nil && a["observed_generation"] == a["generation"] && a["work_due_at"] == nil
}

// retries reports whether runs for an agent have failed so often that the next one waits for a sweep.
func (r records) retries(t *testing.T, id string) bool {
	t.Helper()
	a, err := r.agent(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return a["retry_at"] != nil
}

// checkIdle checks that no worker has anything left to do for an agent.
func (r records) checkIdle(t *testing.T, id string) {
	t.Helper()
	a, err := r.agent(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if a == nil {
		return
	}
	checkEqual(t, "observed_generation", a["observed_generation"], a["generation"])
	checkEqual(t, "work_due_at", a["work_due_at"], nil)
	operations, _ := a["operations"].([]any)
	checkEqual(t, "open operations", len(operations), 0)
}
