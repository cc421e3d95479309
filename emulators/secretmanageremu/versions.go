package secretmanageremu

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"

	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const maxPayload = 64 << 10

// version is a version with its data, which is nil after its destruction.
type version struct {
	record *secretmanagerpb.SecretVersion
	number int64
	data   []byte
}

// findVersion returns the version that a request names. The caller holds the lock.
func findVersion(secrets map[string]*secret, name string, aliases bool) (*version, error) {
	parent, id, err := versionName(name)
	if err != nil {
		return nil, err
	}
	owner, err := findIn(secrets, parent)
	if err != nil {
		return nil, err
	}
	n := number(id)
	switch {
	case n > 0:
	case !aliases:
		return nil, status.Errorf(codes.InvalidArgument, "The version [%s] is not a number.", name)
	case id == "latest":
		n = int64(len(owner.versions)) // the newest version, even if it is disabled
	default:
		n = owner.record.VersionAliases[id]
	}
	if n < 1 || n > int64(len(owner.versions)) {
		return nil, status.Errorf(codes.NotFound, "Secret Version [%s/versions/%s] not found.", owner.record.Name, id)
	}
	return owner.versions[n-1], nil
}

func (s *service) AddSecretVersion(_ context.Context,
	r *secretmanagerpb.AddSecretVersionRequest,
) (*secretmanagerpb.SecretVersion, error) {
	data := r.GetPayload().GetData()
	switch {
	case len(data) == 0:
		return nil, status.Error(codes.InvalidArgument, "Field [payload] is required.")
	case len(data) > maxPayload:
		return nil, status.Errorf(codes.InvalidArgument, "The payload has %d bytes; at most %d are allowed.", len(data),
			maxPayload)
	case r.GetPayload().DataCrc32C != nil && r.GetPayload().GetDataCrc32C() != checksum(data):
		return nil, status.Error(codes.InvalidArgument, "The payload's checksum does not match its data.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	owner, err := s.find(r.GetParent())
	if err != nil {
		return nil, err
	}
	n := int64(len(owner.versions)) + 1
	s.willChange(owner.record.Name)
	added := &version{
		number: n, data: bytes.Clone(data),
		record: &secretmanagerpb.SecretVersion{
			Name: fmt.Sprintf("%s/versions/%d", owner.record.Name, n), CreateTime: s.timestamp(), Etag: s.etag(),
			State:                          secretmanagerpb.SecretVersion_ENABLED,
			ClientSpecifiedPayloadChecksum: r.GetPayload().DataCrc32C != nil,
		},
	}
	owner.versions = append(owner.versions, added)
	return proto.CloneOf(added.record), nil
}

func (s *service) AccessSecretVersion(_ context.Context,
	r *secretmanagerpb.AccessSecretVersionRequest,
) (*secretmanagerpb.AccessSecretVersionResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, err := s.accessed(r.GetName())
	if err != nil {
		return nil, err
	}
	if found.record.State != secretmanagerpb.SecretVersion_ENABLED {
		return nil, status.Errorf(codes.FailedPrecondition, "Secret Version [%s] is in %v state.", found.record.Name,
			found.record.State)
	}
	return &secretmanagerpb.AccessSecretVersionResponse{
		Name: found.record.Name,
		Payload: &secretmanagerpb.SecretPayload{
			Data:       bytes.Clone(found.data),
			DataCrc32C: proto.Int64(checksum(found.data)),
		},
	}, nil
}

// accessed returns the version that a request names, by its number without a lag, by an alias or "latest" with it. The
// caller holds the lock.
func (s *service) accessed(name string) (*version, error) {
	parent, id, err := versionName(name)
	if err != nil || number(id) > 0 {
		return findVersion(s.secrets, name, true)
	}
	old, err := findVersion(s.seen(), name, true)
	if err != nil {
		return nil, err
	}
	return findVersion(s.secrets, parent+"/versions/"+strconv.FormatInt(old.number, 10), false)
}

func (s *service) GetSecretVersion(_ context.Context,
	r *secretmanagerpb.GetSecretVersionRequest,
) (*secretmanagerpb.SecretVersion, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, err := findVersion(s.seen(), r.GetName(), true)
	if err != nil {
		return nil, err
	}
	return proto.CloneOf(found.record), nil
}

// ListSecretVersions returns the newest first.
func (s *service) ListSecretVersions(_ context.Context,
	r *secretmanagerpb.ListSecretVersionsRequest,
) (*secretmanagerpb.ListSecretVersionsResponse, error) {
	match, err := parseFilter(r.GetFilter())
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	owner, err := findIn(s.seen(), r.GetParent())
	if err != nil {
		return nil, err
	}
	var matching []*version
	for _, candidate := range slices.Backward(owner.versions) {
		if match(fields{name: candidate.record.Name, state: candidate.record.State.String()}) {
			matching = append(matching, candidate)
		}
	}
	page, next, err := paginate(matching, func(v *version) int64 { return v.number }, r.GetPageSize(), r.GetPageToken())
	if err != nil {
		return nil, err
	}
	response := &secretmanagerpb.ListSecretVersionsResponse{TotalSize: int32(len(matching)), NextPageToken: next}
	for _, listed := range page {
		response.Versions = append(response.Versions, proto.CloneOf(listed.record))
	}
	return response, nil
}

func (s *service) EnableSecretVersion(_ context.Context,
	r *secretmanagerpb.EnableSecretVersionRequest,
) (*secretmanagerpb.SecretVersion, error) {
	return s.setState(r.GetName(), r.GetEtag(), secretmanagerpb.SecretVersion_ENABLED)
}

func (s *service) DisableSecretVersion(_ context.Context,
	r *secretmanagerpb.DisableSecretVersionRequest,
) (*secretmanagerpb.SecretVersion, error) {
	return s.setState(r.GetName(), r.GetEtag(), secretmanagerpb.SecretVersion_DISABLED)
}

func (s *service) DestroySecretVersion(_ context.Context,
	r *secretmanagerpb.DestroySecretVersionRequest,
) (*secretmanagerpb.SecretVersion, error) {
	return s.setState(r.GetName(), r.GetEtag(), secretmanagerpb.SecretVersion_DESTROYED)
}

// setState changes the state of a version. A destroyed version stays destroyed. Every move creates a new etag, even to
// the same state.
func (s *service) setState(name, etag string, to secretmanagerpb.SecretVersion_State) (*secretmanagerpb.SecretVersion,
	error,
) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, err := findVersion(s.secrets, name, false)
	if err != nil {
		return nil, err
	}
	if err := checkEtag(etag, found.record.Etag, found.record.Name); err != nil {
		return nil, err
	}
	if found.record.State == secretmanagerpb.SecretVersion_DESTROYED {
		return nil, status.Errorf(codes.FailedPrecondition, "Secret Version [%s] is already in DESTROYED state.",
			found.record.Name)
	}
	owner, _, _ := versionName(name) // findVersion found it
	s.willChange(owner)
	found.record.State, found.record.Etag = to, s.etag()
	if to == secretmanagerpb.SecretVersion_DESTROYED {
		found.record.DestroyTime, found.data = s.timestamp(), nil
	}
	return proto.CloneOf(found.record), nil
}

func checksum(data []byte) int64 {
	return int64(crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
}
