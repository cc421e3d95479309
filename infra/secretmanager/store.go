// Package secretmanager stores the credentials and secret variables of agents in Google Secret Manager. It names and
// labels secrets, verifies checksums, and maps the service's errors to faults. It does not interpret the values and
// does not resolve lost answers (package provisioning).
//
// Each variable of an agent has one secret, a brokered one another, and so do the credentials. AddSecretVersion is not
// idempotent, so this package never retries it: no record would name a second version.
package secretmanager

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"strconv"
	"strings"

	client "cloud.google.com/go/secretmanager/apiv1"
	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/infra/lazyconn"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/secret"
)

// MaxValueBytes is the most that a version of a secret holds.
const MaxValueBytes = 64 << 10

// Options configure where secrets are stored.
type Options struct {
	// ProjectID is the Google Cloud project that owns them.
	ProjectID string
	// Environment is the deployment that owns the secrets, such as "prod": a letter and up to 7 letters and digits, in
	// lower case. Secrets of other environments in the project do not exist for this one.
	Environment string
	// Endpoint is the host:port of a local Secret Manager, called without encryption or credentials. Empty means
	// Google's service.
	Endpoint string
	// Database identifies the database that has the agents' records, in a form that a label can hold. New secrets are
	// labeled with it, and SecretOwners lists only those.
	Database string
	// Regions are the regions that store the values. Empty lets Google choose.
	Regions []string
}

// Store implements credential.SecretStore and credential.SecretWriter.
type Store struct {
	client      *client.Client
	project     string // projects/ID
	environment string
	replication *secretmanagerpb.Replication
	database    string
}

// Open creates the client. It connects at the first call.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.ProjectID == "" {
		return nil, errors.New("secret manager: the project must be configured")
	}
	if !environments().MatchString(o.Environment) {
		return nil, fmt.Errorf("secret manager: the environment must be 2 to 8 lowercase letters and digits that "+
			"begin with a letter, got %q", o.Environment)
	}
	c, err := lazyconn.Open(ctx, client.NewClient, clientOptions(o.Endpoint)...)
	if err != nil {
		return nil, fmt.Errorf("open the secret manager client: %w", err)
	}
	c.CallOptions = callOptions()
	return &Store{
		client: c, project: "projects/" + o.ProjectID, environment: o.Environment,
		replication: replication(o.Regions), database: o.Database,
	}, nil
}

func clientOptions(endpoint string) []option.ClientOption {
	options := []option.ClientOption{
		// The client would log requests and answers, values included, if an environment variable asked for it.
		option.WithLogger(slog.New(slog.DiscardHandler)),
		// No configuration that the service publishes may have a call repeated.
		option.WithGRPCDialOption(grpc.WithDisableServiceConfig()), option.WithGRPCDialOption(grpc.WithDisableRetry()),
	}
	if endpoint == "" {
		return options
	}
	return append(options, option.WithEndpoint(endpoint), option.WithoutAuthentication(),
		option.WithTelemetryDisabled(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
}

func replication(regions []string) *secretmanagerpb.Replication {
	if len(regions) == 0 {
		return &secretmanagerpb.Replication{Replication: &secretmanagerpb.Replication_Automatic_{Automatic: &secretmanagerpb.Replication_Automatic{}}}
	}
	managed := &secretmanagerpb.Replication_UserManaged{}
	for _, r := range regions {
		managed.Replicas = append(managed.Replicas, &secretmanagerpb.Replication_UserManaged_Replica{Location: r})
	}
	return &secretmanagerpb.Replication{Replication: &secretmanagerpb.Replication_UserManaged_{UserManaged: managed}}
}

// Close closes the connection.
func (s *Store) Close() error { return s.client.Close() }

// Put implements credential.SecretWriter. Errors: Unavailable with one of the codes of this package.
func (s *Store) Put(ctx context.Context, agentID, key string, value []byte) (int64, error) {
	return s.put(ctx, agentID, key, value, s.addOrCreate)
}

// PutFirst implements credential.SecretWriter. Errors: those of Put.
func (s *Store) PutFirst(ctx context.Context, agentID, key string, value []byte) (int64, error) {
	return s.put(ctx, agentID, key, value, s.createAndAdd)
}

// put adds a version of a variable in one of two ways.
func (s *Store) put(ctx context.Context, agentID, key string, value []byte,
	add func(context.Context, name, []byte) (int64, error),
) (int64, error) {
	name, err := variable(agentID, key)
	if err != nil {
		return 0, err
	}
	if len(value) == 0 || len(value) > MaxValueBytes {
		return 0, fmt.Errorf("secret variable %s: a value of %d bytes instead of 1 to %d", key, len(value),
			MaxValueBytes)
	}
	version, err := add(ctx, name, value)
	return version, translateAdd("add a version", err)
}

// createAndAdd creates the secret, which may exist, and adds a version, exactly once.
func (s *Store) createAndAdd(ctx context.Context, n name, value []byte) (int64, error) {
	if err := s.create(ctx, n); err != nil && code(err) != codes.AlreadyExists {
		return 0, fmt.Errorf("%w: the secret could not be created: %w", credential.ErrRefused, err)
	}
	return s.add(ctx, n, value)
}

// addOrCreate adds a version, exactly once. It creates the secret only after NotFound, which proves that the first call
// added no version.
func (s *Store) addOrCreate(ctx context.Context, n name, value []byte) (int64, error) {
	version, err := s.add(ctx, n, value)
	if code(err) != codes.NotFound {
		return version, err
	}
	return s.createAndAdd(ctx, n, value)
}

// Read implements credential.SecretStore. Errors: BadRequest (secret_value_unavailable) for a version that is missing
// or not enabled; Unavailable with one of the codes of this package.
func (s *Store) Read(ctx context.Context, agentID, key string, version int64) ([]byte, error) {
	name, err := variable(agentID, key)
	if err != nil {
		return nil, err
	}
	value, err := s.access(ctx, name, version)
	return value, translateValue("read a version", err)
}

// create makes a secret without versions.
func (s *Store) create(ctx context.Context, n name) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := s.client.CreateSecret(ctx, &secretmanagerpb.CreateSecretRequest{
		Parent: s.project, SecretId: s.id(n),
		Secret: &secretmanagerpb.Secret{Replication: s.replication, Labels: s.labels(n)},
	})
	return err
}

// add adds a version, exactly once. Its error tells the code only: the request holds the value, and what others make of
// a request that they refuse is not for our logs.
func (s *Store) add(ctx context.Context, n name, value []byte) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	sum := checksum(value)
	added, err := s.client.AddSecretVersion(ctx, &secretmanagerpb.AddSecretVersionRequest{
		Parent: s.path(n), Payload: &secretmanagerpb.SecretPayload{Data: value, DataCrc32C: &sum},
	})
	if err != nil {
		return 0, status.Error(code(err), "the secret manager did not confirm a new version")
	}
	return versionNumber(added.GetName())
}

// Value implements gate.Values: it reads a brokered secret. Errors: those of Read.
func (s *Store) Value(ctx context.Context, agentID, key string, version int64) (string, error) {
	value, err := s.Read(ctx, agentID, secret.BrokeredKey(key), version)
	return string(value), err
}

// ReadNamed reads a version of a secret of the deployment itself, by its full name: projects/ID/secrets/ID/versions/N.
// Errors: those of Read.
func (s *Store) ReadNamed(ctx context.Context, version string) ([]byte, error) {
	value, err := s.accessVersion(ctx, version)
	return value, translateValue("read a version", err)
}

// access reads a version's value.
func (s *Store) access(ctx context.Context, n name, version int64) ([]byte, error) {
	return s.accessVersion(ctx, s.versionPath(n, version))
}

// accessVersion reads the value of a version with a full name. A value that was damaged on its way counts as none.
func (s *Store) accessVersion(ctx context.Context, version string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got, err := s.client.AccessSecretVersion(ctx, &secretmanagerpb.AccessSecretVersionRequest{Name: version})
	if err != nil {
		return nil, err
	}
	value := got.GetPayload().GetData()
	if got.GetPayload().DataCrc32C == nil || got.GetPayload().GetDataCrc32C() != checksum(value) {
		return nil, status.Error(codes.DataLoss, "the value's checksum is wrong or missing")
	}
	return value, nil
}

// path is the secret's full name.
func (s *Store) path(n name) string { return s.project + "/secrets/" + s.id(n) }

// versionNumber reads the number of a version from its name. The rest of the name is not as it was asked for: the
// service names projects by number.
func versionNumber(name string) (int64, error) {
	number, err := strconv.ParseInt(name[strings.LastIndexByte(name, '/')+1:], 10, 64)
	if err != nil || number < 1 {
		return 0, fmt.Errorf("the secret manager answered the version name %q, which has no number", name)
	}
	return number, nil
}

func checksum(data []byte) int64 {
	return int64(crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
}
