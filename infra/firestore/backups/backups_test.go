package backups

import (
	"context"
	"net"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// administration answers as Firestore does for one database.
type administration struct {
	adminpb.UnimplementedFirestoreAdminServer

	created time.Time
	backups []*adminpb.Backup
}

// GetDatabase implements adminpb.FirestoreAdminServer.
func (a *administration) GetDatabase(_ context.Context, r *adminpb.GetDatabaseRequest) (*adminpb.Database, error) {
	if r.GetName() != "projects/p/databases/records" {
		return nil, status.Error(codes.NotFound, r.GetName())
	}
	return &adminpb.Database{
		Name: r.GetName(), Uid: "present", LocationId: "nam5", CreateTime: timestamppb.New(a.created),
	}, nil
}

// ListBackups implements adminpb.FirestoreAdminServer.
func (a *administration) ListBackups(_ context.Context, r *adminpb.ListBackupsRequest) (
	*adminpb.ListBackupsResponse, error,
) {
	if r.GetParent() != "projects/p/locations/nam5" {
		return nil, status.Error(codes.PermissionDenied, r.GetParent())
	}
	return &adminpb.ListBackupsResponse{Backups: a.backups}, nil
}

func serve(t *testing.T, a *administration, database string) *Client {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	adminpb.RegisterFirestoreAdminServer(s, a)
	go func() { _ = s.Serve(l) }() // until Stop
	t.Cleanup(s.Stop)
	plain := grpc.WithTransportCredentials(insecure.NewCredentials())
	c, err := Open(t.Context(), "p", database, option.WithEndpoint(l.Addr().String()), option.WithoutAuthentication(),
		option.WithTelemetryDisabled(), option.WithGRPCDialOption(plain))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestSafeSince_IsTheNewestCompleteBackupOfThisDatabase(t *testing.T) {
	t.Parallel()
	day := func(n int) time.Time { return time.Date(2026, 3, n, 5, 0, 0, 0, time.UTC) }
	backup := func(n int, uid string, state adminpb.Backup_State) *adminpb.Backup {
		return &adminpb.Backup{DatabaseUid: uid, State: state, SnapshotTime: timestamppb.New(day(n))}
	}
	for name, c := range map[string]struct {
		backups []*adminpb.Backup
		want    time.Time
	}{
		"of a new database": {want: day(1)},
		"in any order": {
			backups: []*adminpb.Backup{
				backup(3, "present", adminpb.Backup_READY), backup(5, "present", adminpb.Backup_READY),
				backup(4, "present", adminpb.Backup_READY),
			},
			want: day(5),
		},
		"without incomplete and lost ones": {
			backups: []*adminpb.Backup{
				backup(3, "present", adminpb.Backup_READY), backup(4, "present", adminpb.Backup_NOT_AVAILABLE),
				backup(5, "present", adminpb.Backup_CREATING),
			},
			want: day(3),
		},
		"without those of other databases": {
			backups: []*adminpb.Backup{backup(5, "former", adminpb.Backup_READY)}, want: day(1),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := serve(t, &administration{created: day(1), backups: c.backups}, "records").SafeSince(t.Context())
			if err != nil || !got.Equal(c.want) {
				t.Errorf("SafeSince = %s, %v; want %s", got, err, c.want)
			}
		})
	}
}

func TestSafeSince_FailsForADatabaseThatIsNone(t *testing.T) {
	t.Parallel()
	got, err := serve(t, &administration{}, "").SafeSince(t.Context())
	if status.Code(err) != codes.NotFound {
		t.Errorf("SafeSince = %s, %v; want not found", got, err)
	}
}
