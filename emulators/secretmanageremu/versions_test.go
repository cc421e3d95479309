package secretmanageremu_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

func TestAddSecretVersion_CanBeAccessed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	made := f.create("s", nil)
	first := f.add(made.Name, "one")
	second := f.add(project+"/secrets/s", "two")
	if want := made.Name + "/versions/1"; first.Name != want {
		t.Errorf("name of the first version = %s, want %s", first.Name, want)
	}
	if want := made.Name + "/versions/2"; second.Name != want {
		t.Errorf("name of the second version = %s, want %s", second.Name, want)
	}
	if !second.ClientSpecifiedPayloadChecksum {
		t.Error("ClientSpecifiedPayloadChecksum = false, want true")
	}
	if second.State != secretmanagerpb.SecretVersion_ENABLED {
		t.Errorf("state = %v, want ENABLED", second.State)
	}
	for id, want := range map[string]string{"1": "one", "2": "two", "latest": "two"} {
		name, data, err := f.access(project + "/secrets/s/versions/" + id)
		if err != nil || data != want || strings.HasSuffix(name, "latest") {
			t.Errorf("access %s = %s %q, %v; want a number and %q", id, name, data, err, want)
		}
	}
	for _, id := range []string{"3", "0", "-1", "nick"} {
		_, _, err := f.access(made.Name + "/versions/" + id)
		f.wantCode("access "+id, err, codes.NotFound)
	}
	for _, name := range []string{made.Name, made.Name + "/versions/", made.Name + "/versions/1/x", "s/versions/1"} {
		_, _, err := f.access(name)
		f.wantCode("access "+name, err, codes.InvalidArgument)
	}
}

func TestAddSecretVersion_ValidatesThePayload(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	made := f.create("s", nil)
	full := strings.Repeat("x", 64<<10)
	tests := map[string]struct {
		payload *secretmanagerpb.SecretPayload
		want    codes.Code
	}{
		"largest": {payload: &secretmanagerpb.SecretPayload{Data: []byte(full)}, want: codes.OK},
		"one byte too large": {
			payload: &secretmanagerpb.SecretPayload{Data: []byte(full + "x")},
			want:    codes.InvalidArgument,
		},
		"empty": {payload: &secretmanagerpb.SecretPayload{}, want: codes.InvalidArgument},
		"none":  {payload: nil, want: codes.InvalidArgument},
		"a wrong checksum": {payload: &secretmanagerpb.SecretPayload{
			Data:       []byte("a"),
			DataCrc32C: proto.Int64(checksum("b")),
		}, want: codes.InvalidArgument},
		"no checksum": {payload: &secretmanagerpb.SecretPayload{Data: []byte("a")}, want: codes.OK},
	}
	for name, test := range tests {
		_, err := f.AddSecretVersion(f.Context(),
			&secretmanagerpb.AddSecretVersionRequest{Parent: made.Name, Payload: test.payload})
		f.wantCode(name, err, test.want)
	}
	_, err := f.AddSecretVersion(f.Context(), &secretmanagerpb.AddSecretVersionRequest{
		Parent: project + "/secrets/none", Payload: &secretmanagerpb.SecretPayload{Data: []byte("hidden")},
	})
	f.wantCode("a missing secret", err, codes.NotFound)
	if strings.Contains(err.Error(), "hidden") {
		t.Errorf("error = %v, want one without the payload", err)
	}
}

// moves returns the three calls that change a version's state.
func (f secretFixture) moves() map[string]func(name, etag string) (*secretmanagerpb.SecretVersion, error) {
	return map[string]func(name, etag string) (*secretmanagerpb.SecretVersion, error){
		"enable": func(name, etag string) (*secretmanagerpb.SecretVersion, error) {
			return f.EnableSecretVersion(f.Context(),
				&secretmanagerpb.EnableSecretVersionRequest{Name: name, Etag: etag})
		},
		"disable": func(name, etag string) (*secretmanagerpb.SecretVersion, error) {
			return f.DisableSecretVersion(f.Context(),
				&secretmanagerpb.DisableSecretVersionRequest{Name: name, Etag: etag})
		},
		"destroy": func(name, etag string) (*secretmanagerpb.SecretVersion, error) {
			return f.DestroySecretVersion(f.Context(),
				&secretmanagerpb.DestroySecretVersionRequest{Name: name, Etag: etag})
		},
	}
}

func TestVersionStates_FollowMoves(t *testing.T) {
	t.Parallel()
	tests := []struct {
		moves  string
		want   codes.Code // of the last move
		access codes.Code
	}{
		{moves: "enable", want: codes.OK, access: codes.OK},
		{moves: "disable", want: codes.OK, access: codes.FailedPrecondition},
		{moves: "disable disable", want: codes.OK, access: codes.FailedPrecondition},
		{moves: "disable enable", want: codes.OK, access: codes.OK},
		{moves: "destroy", want: codes.OK, access: codes.FailedPrecondition},
		{moves: "disable destroy", want: codes.OK, access: codes.FailedPrecondition},
		{moves: "destroy enable", want: codes.FailedPrecondition, access: codes.FailedPrecondition},
		{moves: "destroy disable", want: codes.FailedPrecondition, access: codes.FailedPrecondition},
		{moves: "destroy destroy", want: codes.FailedPrecondition, access: codes.FailedPrecondition},
	}
	f := newFixture(t)
	for i, test := range tests {
		made := f.create(fmt.Sprintf("s%d", i), nil)
		f.add(made.Name, "one")
		newest := f.add(made.Name, "two")
		var err error
		etag := newest.Etag
		for move := range strings.FieldsSeq(test.moves) {
			var moved *secretmanagerpb.SecretVersion
			moved, err = f.moves()[move](newest.Name, etag)
			if err == nil && moved.Etag == etag {
				t.Errorf("%s: etag did not change", test.moves)
			}
			if err == nil && (moved.DestroyTime != nil) != (moved.State == secretmanagerpb.SecretVersion_DESTROYED) {
				t.Errorf("%s: DestroyTime = %v in state %v, want it set only when destroyed", test.moves,
					moved.DestroyTime,
					moved.State)
			}
			etag = moved.GetEtag()
		}
		f.wantCode(test.moves, err, test.want)
		_, _, err = f.access(newest.Name)
		f.wantCode(test.moves+", then access", err, test.access)
		_, _, err = f.access(made.Name + "/versions/latest")
		f.wantCode(test.moves+", then access the latest", err, test.access)
		if _, data, err := f.access(made.Name + "/versions/1"); err != nil || data != "one" {
			t.Errorf("%s: first version = %q, %v; want one", test.moves, data, err)
		}
	}
}

func TestVersionMoves_RequireNumberAndCurrentEtag(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	made := f.create("s", nil)
	added := f.add(made.Name, "one")
	for move, call := range f.moves() {
		_, err := call(added.Name, `"other"`)
		f.wantCode(move+" with an old etag", err, codes.FailedPrecondition)
		_, err = call(made.Name+"/versions/latest", "")
		f.wantCode(move+" the latest", err, codes.InvalidArgument)
		_, err = call(made.Name+"/versions/2", "")
		f.wantCode(move+" a missing version", err, codes.NotFound)
	}
	got, err := f.GetSecretVersion(f.Context(),
		&secretmanagerpb.GetSecretVersionRequest{Name: made.Name + "/versions/latest"})
	if err != nil || got.Name != added.Name || got.Etag != added.Etag {
		t.Errorf("latest version = %v, %v; want %v", got, err, added)
	}
	after, err := f.GetSecret(f.Context(), &secretmanagerpb.GetSecretRequest{Name: made.Name})
	if err != nil || after.Etag != made.Etag {
		t.Errorf("secret after adding a version = %v, %v; want etag %s", after, err, made.Etag)
	}
}

func TestListSecretVersions_FiltersAndPages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	made := f.create("s", nil)
	for i := range 5 {
		f.add(made.Name, fmt.Sprint(i))
	}
	for _, n := range []string{"2", "4"} {
		if _, err := f.moves()["disable"](made.Name+"/versions/"+n, ""); err != nil {
			t.Fatal(err)
		}
	}
	for filter, want := range map[string]string{
		"": "5 4 3 2 1", "state:ENABLED": "5 3 1", "state=disabled": "4 2",
		"state:DESTROYED": "",
	} {
		for _, size := range []int32{0, 1, 2, 3} {
			it := f.ListSecretVersions(f.Context(),
				&secretmanagerpb.ListSecretVersionsRequest{Parent: made.Name, Filter: filter, PageSize: size})
			var numbers []string
			for {
				v, err := it.Next()
				if errors.Is(err, iterator.Done) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				numbers = append(numbers, v.Name[strings.LastIndex(v.Name, "/")+1:])
			}
			if got := strings.Join(numbers, " "); got != want {
				t.Errorf("filter %q, pages of size %d: versions = %q, want %q", filter, size, got, want)
			}
		}
	}
	_, err := f.ListSecretVersions(f.Context(),
		&secretmanagerpb.ListSecretVersionsRequest{Parent: project + "/secrets/none"}).Next()
	f.wantCode("a missing secret", err, codes.NotFound)
}
