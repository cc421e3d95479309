// Package backups reads when the records were last backed up. It makes and restores no backup: Firestore makes them by
// the schedules of the database, and terraform/restore.sh restores them.
package backups

import (
	"cmp"
	"context"
	"fmt"
	"time"

	gcp "cloud.google.com/go/firestore"
	admin "cloud.google.com/go/firestore/apiv1/admin"
	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"google.golang.org/api/option"

	"agents.example/controlplane/infra/lazyconn"
)

// timeout bounds a look, which is two calls.
const timeout = 30 * time.Second

// Client looks for backups of one database.
type Client struct {
	admin   *admin.FirestoreAdminClient
	project string
	// database is the full name.
	database string
}

// Open returns a Client. An empty database is the project's default one.
func Open(ctx context.Context, project, database string, options ...option.ClientOption) (*Client, error) {
	c, err := lazyconn.Open(ctx, admin.NewFirestoreAdminClient, options...)
	if err != nil {
		return nil, fmt.Errorf("open the client of Firestore's administration: %w", err)
	}
	project = "projects/" + project
	return &Client{c, project, project + "/databases/" + cmp.Or(database, gcp.DefaultDatabaseID)}, nil
}

// Close closes the connection.
func (c *Client) Close() error { return c.admin.Close() }

// SafeSince returns from when the newest complete backup of the database is. Without one it returns when the database
// was created: a new one has no backup for a day. Backups of a former database of that name do not count.
func (c *Client) SafeSince(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	database, err := c.admin.GetDatabase(ctx, &adminpb.GetDatabaseRequest{Name: c.database})
	if err != nil {
		return time.Time{}, fmt.Errorf("read the database: %w", err)
	}
	list, err := c.admin.ListBackups(ctx, &adminpb.ListBackupsRequest{
		Parent: c.project + "/locations/" + database.GetLocationId(),
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("list backups: %w", err)
	}
	newest := database.GetCreateTime().AsTime()
	for _, b := range list.GetBackups() {
		at := b.GetSnapshotTime().AsTime()
		if b.GetDatabaseUid() == database.GetUid() && b.GetState() == adminpb.Backup_READY && at.After(newest) {
			newest = at
		}
	}
	return newest, nil
}
