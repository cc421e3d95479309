package secretmanageremu

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

// secret is a secret with all its versions; version n is versions[n-1].
type secret struct {
	record   *secretmanagerpb.Secret
	created  int64
	versions []*version
}

// nextTime returns the next time, which is unique.
func (s *service) nextTime() int64 {
	s.clock++
	return s.clock
}

// etag returns a new etag, including its quotes.
func (s *service) etag() string { return strconv.Quote(strconv.FormatInt(s.nextTime(), 16)) }

// find returns the secret that a request names. The caller holds the lock.
func (s *service) find(name string) (*secret, error) { return findIn(s.secrets, name) }

func findIn(secrets map[string]*secret, name string) (*secret, error) {
	full, err := secretName(name)
	if err != nil {
		return nil, err
	}
	found, ok := secrets[full]
	if !ok {
		return nil, status.Errorf(codes.NotFound, "Secret [%s] not found.", full)
	}
	return found, nil
}

func (s *service) CreateSecret(_ context.Context, r *secretmanagerpb.CreateSecretRequest) (*secretmanagerpb.Secret,
	error,
) {
	project, err := projectName(r.GetParent())
	if err != nil {
		return nil, err
	}
	if !secretID.MatchString(r.GetSecretId()) {
		return nil, status.Errorf(codes.InvalidArgument, "The secret id [%s] is not 1 to 255 letters, digits, - and _.",
			r.GetSecretId())
	}
	if err := validateNew(r.GetSecret()); err != nil {
		return nil, err
	}
	name := project + "/secrets/" + r.GetSecretId()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.secrets[name]; ok {
		return nil, status.Errorf(codes.AlreadyExists, "Secret [%s] already exists.", name)
	}
	record := proto.CloneOf(r.GetSecret())
	record.Name, record.CreateTime, record.Etag = name, s.timestamp(), s.etag()
	s.willChange(name)
	s.secrets[name] = &secret{record: record, created: s.nextTime()}
	return proto.CloneOf(record), nil
}

func (s *service) GetSecret(_ context.Context, r *secretmanagerpb.GetSecretRequest) (*secretmanagerpb.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, err := findIn(s.seen(), r.GetName())
	if err != nil {
		return nil, err
	}
	return proto.CloneOf(found.record), nil
}

func (s *service) UpdateSecret(_ context.Context, r *secretmanagerpb.UpdateSecretRequest) (*secretmanagerpb.Secret,
	error,
) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, err := s.find(r.GetSecret().GetName())
	if err != nil {
		return nil, err
	}
	if err := checkEtag(r.GetSecret().GetEtag(), found.record.Etag, found.record.Name); err != nil {
		return nil, err
	}
	changed := proto.CloneOf(found.record)
	if len(r.GetUpdateMask().GetPaths()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "Field [update_mask] is required.")
	}
	for _, path := range r.GetUpdateMask().GetPaths() {
		switch path {
		case "labels":
			changed.Labels = r.GetSecret().GetLabels()
		case "annotations":
			changed.Annotations = r.GetSecret().GetAnnotations()
		case "version_aliases":
			changed.VersionAliases = r.GetSecret().GetVersionAliases()
		default:
			return nil, status.Errorf(codes.Unimplemented, "The emulator can't update the field [%s].", path)
		}
	}
	if err := validateChanged(changed, len(found.versions)); err != nil {
		return nil, err
	}
	changed.Etag = s.etag()
	s.willChange(changed.Name)
	found.record = changed
	return proto.CloneOf(changed), nil
}

func (s *service) DeleteSecret(_ context.Context, r *secretmanagerpb.DeleteSecretRequest) (*emptypb.Empty, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, err := s.find(r.GetName())
	if err != nil {
		return nil, err
	}
	if err := checkEtag(r.GetEtag(), found.record.Etag, found.record.Name); err != nil {
		return nil, err
	}
	s.willChange(found.record.Name)
	delete(s.secrets, found.record.Name)
	return &emptypb.Empty{}, nil
}

// ListSecrets returns the newest first.
func (s *service) ListSecrets(_ context.Context,
	r *secretmanagerpb.ListSecretsRequest,
) (*secretmanagerpb.ListSecretsResponse, error) {
	project, err := projectName(r.GetParent())
	if err != nil {
		return nil, err
	}
	match, err := parseFilter(r.GetFilter())
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var matching []*secret
	for name, candidate := range s.seen() {
		if strings.HasPrefix(name, project+"/secrets/") && match(fields{name: name, labels: candidate.record.Labels}) {
			matching = append(matching, candidate)
		}
	}
	slices.SortFunc(matching, func(a, b *secret) int { return cmp.Compare(b.created, a.created) })
	page, next, err := paginate(matching, func(c *secret) int64 { return c.created }, r.GetPageSize(), r.GetPageToken())
	if err != nil {
		return nil, err
	}
	response := &secretmanagerpb.ListSecretsResponse{TotalSize: int32(len(matching)), NextPageToken: next}
	for _, listed := range page {
		response.Secrets = append(response.Secrets, proto.CloneOf(listed.record))
	}
	return response, nil
}

// checkEtag accepts a request without an etag.
func checkEtag(given, current, name string) error {
	if given == "" || given == current {
		return nil
	}
	return status.Errorf(codes.FailedPrecondition, "The etag [%s] is not the current etag of [%s].", given, name)
}
