//go:build unix

package firestoreemu_test

import (
	"slices"
	"testing"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// TestListCollectionIds_ReturnsAllPages lists collections in one page and in several, on every emulator.
func TestListCollectionIds_ReturnsAllPages(t *testing.T) {
	t.Parallel()
	// the official emulator requires it for this method
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer owner")
	for _, e := range emulators() {
		service := firestorepb.NewFirestoreClient(dial(t, e))
		database := "projects/p-" + uuid.NewString() + "/databases/(default)"
		parent := database + "/documents"
		var writes []*firestorepb.Write
		for _, name := range []string{"b/1", "b/2", "a/1", "c/1/inner/1", "a/1/inner/1", "a/1/other/1"} {
			writes = append(writes, &firestorepb.Write{Operation: &firestorepb.Write_Update{Update: &firestorepb.Document{Name: parent + "/" + name}}})
		}
		if _, err := service.Commit(ctx, &firestorepb.CommitRequest{Database: database, Writes: writes}); err != nil {
			t.Fatal(err)
		}
		for below, want := range map[string][]string{
			"": {"a", "b", "c"}, "/a/1": {"inner", "other"}, "/b/1": nil,
			"/z/1": nil,
		} {
			for _, size := range []int32{0, 1, 2, 10} {
				var got []string
				for token := ""; ; {
					page, err := service.ListCollectionIds(ctx,
						&firestorepb.ListCollectionIdsRequest{Parent: parent + below, PageSize: size, PageToken: token})
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, page.GetCollectionIds()...)
					if token = page.GetNextPageToken(); token == "" {
						break
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s: collections below %q with pages of %d = %v, want %v", e.Kind, below, size, got, want)
				}
			}
		}
		if _, err := service.ListCollectionIds(ctx,
			&firestorepb.ListCollectionIdsRequest{Parent: "invalid"}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: invalid parent: error = %v, want InvalidArgument", e.Kind, err)
		}
	}
}
