package secretmanageremu_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"agents.example/controlplane/emulators/secretmanageremu"
)

func TestCreateSecret_CanBeRead(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	made := f.create("agent-1", map[string]string{"agent": "a1"})
	if !regexp.MustCompile(`^projects/[0-9]{12}/secrets/agent-1$`).MatchString(made.Name) {
		t.Errorf("name = %q, want one with a project number", made.Name)
	}
	if made.Etag == "" {
		t.Error("etag is empty")
	}
	if age := time.Since(made.CreateTime.AsTime()); age > time.Minute {
		t.Errorf("age of CreateTime = %v, want less than a minute", age)
	}
	for _, name := range []string{made.Name, project + "/secrets/agent-1"} {
		got, err := f.GetSecret(f.Context(), &secretmanagerpb.GetSecretRequest{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(made, got, protocmp.Transform()); diff != "" {
			t.Errorf("GetSecret(%s) (-created +got):\n%s", name, diff)
		}
		if got.Labels["agent"] != "a1" {
			t.Errorf("GetSecret(%s): label agent = %q, want a1", name, got.Labels["agent"])
		}
	}
	_, err := f.CreateSecret(f.Context(), &secretmanagerpb.CreateSecretRequest{
		Parent: strings.TrimSuffix(made.Name, "/secrets/agent-1"), SecretId: "agent-1",
		Secret: &secretmanagerpb.Secret{Replication: automatic()},
	})
	f.wantCode("create again, by project number", err, codes.AlreadyExists)
	_, err = f.GetSecret(f.Context(), &secretmanagerpb.GetSecretRequest{Name: "projects/another/secrets/agent-1"})
	f.wantCode("get from another project", err, codes.NotFound)
}

func TestCreateSecret_Validates(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	request := func(change func(*secretmanagerpb.CreateSecretRequest)) *secretmanagerpb.CreateSecretRequest {
		r := &secretmanagerpb.CreateSecretRequest{
			Parent: project, SecretId: "s",
			Secret: &secretmanagerpb.Secret{Replication: automatic()},
		}
		change(r)
		return r
	}
	labels := func(count int, key, value string) func(*secretmanagerpb.CreateSecretRequest) {
		return func(r *secretmanagerpb.CreateSecretRequest) {
			r.Secret.Labels = map[string]string{}
			for i := range count {
				r.Secret.Labels[key+strings.Repeat("x", i)] = value
			}
		}
	}
	annotation := func(key, value string) func(*secretmanagerpb.CreateSecretRequest) {
		return func(r *secretmanagerpb.CreateSecretRequest) { r.Secret.Annotations = map[string]string{key: value} }
	}
	tests := map[string]struct {
		change func(*secretmanagerpb.CreateSecretRequest)
		want   codes.Code
	}{
		"no replication": {
			change: func(r *secretmanagerpb.CreateSecretRequest) { r.Secret.Replication = nil },
			want:   codes.InvalidArgument,
		},
		"no secret": {
			change: func(r *secretmanagerpb.CreateSecretRequest) { r.Secret = nil },
			want:   codes.InvalidArgument,
		},
		"no replicas": {change: func(r *secretmanagerpb.CreateSecretRequest) {
			r.Secret.Replication.Replication = &secretmanagerpb.Replication_UserManaged_{UserManaged: &secretmanagerpb.Replication_UserManaged{}}
		}, want: codes.InvalidArgument},
		"a slash in the id": {
			change: func(r *secretmanagerpb.CreateSecretRequest) { r.SecretId = "a/b" },
			want:   codes.InvalidArgument,
		},
		"an id of 256 characters": {change: func(r *secretmanagerpb.CreateSecretRequest) {
			r.SecretId = strings.Repeat("x",
				256)
		}, want: codes.InvalidArgument},
		"an id of 255 characters": {change: func(r *secretmanagerpb.CreateSecretRequest) {
			r.SecretId = strings.Repeat("x",
				255)
		}, want: codes.OK},
		"no project": {
			change: func(r *secretmanagerpb.CreateSecretRequest) { r.Parent = "folders/1" },
			want:   codes.InvalidArgument,
		},
		"a regional secret": {
			change: func(r *secretmanagerpb.CreateSecretRequest) { r.Parent += "/locations/europe-west1" },
			want:   codes.Unimplemented,
		},
		"expiration": {change: func(r *secretmanagerpb.CreateSecretRequest) {
			r.Secret.Expiration = &secretmanagerpb.Secret_Ttl{Ttl: durationpb.New(time.Hour)}
		}, want: codes.Unimplemented},
		"an alias of a missing version": {change: func(r *secretmanagerpb.CreateSecretRequest) { r.Secret.VersionAliases = map[string]int64{"live": 1} }, want: codes.InvalidArgument},
		"an upper-case label":           {change: labels(1, "Key", "v"), want: codes.InvalidArgument},
		"a label that starts with 1":    {change: labels(1, "1key", "v"), want: codes.InvalidArgument},
		"an upper-case label value":     {change: labels(1, "key", "V"), want: codes.InvalidArgument},
		"a dot in a label value":        {change: labels(1, "key", "v.1"), want: codes.InvalidArgument},
		"a label value of 64": {
			change: labels(1, "key", strings.Repeat("v", 64)),
			want:   codes.InvalidArgument,
		},
		"an empty label value": {change: labels(1, "key", ""), want: codes.OK},
		"a label key of 64":    {change: labels(62, "key", "v"), want: codes.InvalidArgument},
		"a label key of 63":    {change: labels(61, "key", "v"), want: codes.OK},
		"an annotation that ends in a dot": {
			change: annotation("key.", "v"), want: codes.InvalidArgument,
		},
		"annotations too large": {change: annotation("key", strings.Repeat("v", 16<<10)), want: codes.InvalidArgument},
		"an annotation":         {change: annotation("control-plane.example_x", "Any Value: é"), want: codes.OK},
	}
	n := 0
	for name, test := range tests {
		n++
		created := request(func(r *secretmanagerpb.CreateSecretRequest) { r.SecretId = fmt.Sprintf("s%d", n) })
		test.change(created)
		_, err := f.CreateSecret(f.Context(), created)
		f.wantCode(name, err, test.want)
	}
}

func TestUpdateSecret_ChangesOnlyTheMask(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	made := f.create("s", map[string]string{"old": "1"})
	f.add(made.Name, "one")
	update := func(s *secretmanagerpb.Secret, paths ...string) (*secretmanagerpb.Secret, error) {
		return f.UpdateSecret(f.Context(),
			&secretmanagerpb.UpdateSecretRequest{Secret: s, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths}})
	}
	got, err := update(&secretmanagerpb.Secret{
		Name: project + "/secrets/s", Etag: made.Etag, Labels: map[string]string{"new": "2"},
		Annotations: map[string]string{"a": "b"},
	}, "labels")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"new": "2"}, got.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if got.Annotations != nil {
		t.Errorf("annotations = %v, want none", got.Annotations)
	}
	if got.Etag == made.Etag {
		t.Error("etag did not change")
	}
	_, err = update(&secretmanagerpb.Secret{Name: made.Name, Etag: made.Etag}, "labels")
	f.wantCode("an old etag", err, codes.FailedPrecondition)
	_, err = update(&secretmanagerpb.Secret{Name: made.Name})
	f.wantCode("no update mask", err, codes.InvalidArgument)
	_, err = update(&secretmanagerpb.Secret{Name: made.Name}, "ttl")
	f.wantCode("an unimplemented field", err, codes.Unimplemented)
	_, err = update(&secretmanagerpb.Secret{Name: project + "/secrets/none"}, "labels")
	f.wantCode("a missing secret", err, codes.NotFound)
	for alias, code := range map[string]codes.Code{
		"live": codes.OK, "latest": codes.InvalidArgument,
		"1st": codes.InvalidArgument,
	} {
		_, err = update(&secretmanagerpb.Secret{Name: made.Name, VersionAliases: map[string]int64{alias: 1}},
			"version_aliases")
		f.wantCode("alias "+alias, err, code)
	}
	if _, data, err := f.access(made.Name + "/versions/live"); err != nil || data != "one" {
		t.Errorf("access by alias = %q, %v; want one", data, err)
	}
}

func TestDeleteSecret_RemovesVersions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	made := f.create("s", nil)
	f.add(made.Name, "one")
	f.wantCode("an old etag", f.DeleteSecret(f.Context(),
		&secretmanagerpb.DeleteSecretRequest{Name: made.Name, Etag: `"other"`}), codes.FailedPrecondition)
	f.wantCode("delete", f.DeleteSecret(f.Context(),
		&secretmanagerpb.DeleteSecretRequest{Name: made.Name, Etag: made.Etag}), codes.OK)
	f.wantCode("delete again", f.DeleteSecret(f.Context(), &secretmanagerpb.DeleteSecretRequest{Name: made.Name}),
		codes.NotFound)
	_, _, err := f.access(made.Name + "/versions/1")
	f.wantCode("access after the deletion", err, codes.NotFound)
	f.create("s", nil)
	if added := f.add(made.Name, "two"); added.Name != made.Name+"/versions/1" {
		t.Errorf("first version of the new secret = %s, want version 1", added.Name)
	}
}

func TestListSecrets_FiltersAndPages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i := range 7 {
		f.create(fmt.Sprintf("s%d", i),
			map[string]string{"parity": []string{"even", "odd"}[i%2], "third": fmt.Sprint(i % 3)})
	}
	f.create("bare", nil)
	tests := map[string]struct {
		filter string
		want   string
	}{
		"all, newest first":       {filter: "", want: "bare s6 s5 s4 s3 s2 s1 s0"},
		"a label":                 {filter: "labels.parity=odd", want: "s5 s3 s1"},
		"a quoted value":          {filter: `labels.parity="odd"`, want: "s5 s3 s1"},
		"two labels":              {filter: "labels.parity=even AND labels.third=0", want: "s6 s0"},
		"label exists":            {filter: "labels.third:*", want: "s6 s5 s4 s3 s2 s1 s0"},
		"part of a label":         {filter: "labels.parity:VE", want: "s6 s4 s2 s0"},
		"part of the name":        {filter: "name:s3", want: "s3"},
		"name and label together": {filter: "name:s AND labels.third=1", want: "s4 s1"},
		"no match":                {filter: "labels.parity=none", want: ""},
	}
	for name, test := range tests {
		for _, size := range []int32{0, 1, 2, 100} {
			it := f.ListSecrets(f.Context(),
				&secretmanagerpb.ListSecretsRequest{Parent: project, Filter: test.filter, PageSize: size})
			var ids []string
			for {
				s, err := it.Next()
				if errors.Is(err, iterator.Done) {
					break
				}
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				ids = append(ids, s.Name[strings.LastIndex(s.Name, "/")+1:])
			}
			if got := strings.Join(ids, " "); got != test.want {
				t.Errorf("%s, pages of size %d: ids = %q, want %q", name, size, got, test.want)
			}
		}
	}
	for _, filter := range []string{
		"labels.a=b OR labels.c=d", "NOT labels.a=b", "(labels.a=b)", "created>2020",
		"size=1", "=",
	} {
		_, err := f.ListSecrets(f.Context(),
			&secretmanagerpb.ListSecretsRequest{Parent: project, Filter: filter}).Next()
		f.wantCode("filter "+filter, err, codes.InvalidArgument)
	}
	for name, request := range map[string]*secretmanagerpb.ListSecretsRequest{
		"a bad token": {Parent: project, PageToken: "!"}, "a bad size": {Parent: project, PageSize: -1},
		"a bad parent": {Parent: "x"},
	} {
		_, err := f.ListSecrets(f.Context(), request).Next()
		f.wantCode(name, err, codes.InvalidArgument)
	}
}

func TestStart_FailsIfTheAddressIsInUse(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if _, err := secretmanageremu.Start(t.Context(), secretmanageremu.Options{Address: f.server.Addr}); err == nil {
		t.Error("Start on an address in use succeeded, want an error")
	}
}
