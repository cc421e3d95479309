package bench

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"

	"agents.example/controlplane/emulators/cluster"
)

const (
	clusterStarts = 5
	clusterStart  = 200 // milliseconds
)

// measureClusterStart measures P14: the CPU time until an embedded cluster without agents is ready.
func measureClusterStart(ctx context.Context, l *environment) (Report, error) {
	var r rounds
	for i := range clusterStarts {
		var c *cluster.Cluster
		used, err := during(0, func() (err error) {
			c, err = cluster.Start(ctx, cluster.Options{Dir: filepath.Join(l.dir, "kubernetes-"+strconv.Itoa(i))})
			return err
		})
		if c != nil {
			err = errors.Join(err, c.Close())
		}
		if err != nil {
			return Report{}, err
		}
		r.add(milliseconds(used), clusterStart)
	}
	row, err := r.row()
	row.ID, row.What, row.Unit, row.Most = "P14", "start of an embedded cluster", "ms of CPU", 1
	return Report{Rows: []Row{row}}, err
}
