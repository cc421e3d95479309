package cloud

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"agents.example/controlplane/infra/gke/admission"
	"agents.example/controlplane/infra/gke/connect"
	"agents.example/controlplane/shared/image"
)

// putCatalog writes the entries of Options.Catalog as the operator's tool does: the cell admits the images before an
// agent can take one. A version whose reference is a name of the node's registry gets the reference there.
func (c *Cloud) putCatalog(ctx context.Context) (err error) {
	if len(c.options.Catalog) == 0 {
		return nil
	}
	entries := make([]image.Image, len(c.options.Catalog))
	for n, i := range c.options.Catalog {
		i.Versions = slices.Clone(i.Versions)
		for k := range i.Versions {
			v := &i.Versions[k]
			v.CreatedAt = time.Now().UTC()
			if c.Node != nil && c.Node.Images[v.Reference] != "" {
				v.Reference = c.Node.Images[v.Reference]
			}
		}
		if err := i.Check(); err != nil {
			return fmt.Errorf("the image %s of the catalog: %w", i.ID, err)
		}
		entries[n] = i
	}
	cells := admission.New(ctx, []connect.Cell{{Name: cellName, Kubeconfig: c.Ready.Kubeconfig}})
	records, err := c.openRecords(ctx)
	if err != nil {
		return errors.Join(err, cells.Close())
	}
	defer func() { err = errors.Join(err, records.Close(), cells.Close()) }()
	if err := cells.Admit(ctx, entries); err != nil {
		return fmt.Errorf("admit the images of the catalog: %w", err)
	}
	for _, i := range entries {
		if _, err := records.Images().Put(ctx, i); err != nil {
			return fmt.Errorf("write the image %s of the catalog: %w", i.ID, err)
		}
		c.progress("  %-18s %s", "Image "+i.ID, i.DefaultVersion)
	}
	return nil
}
