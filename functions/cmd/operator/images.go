package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/release"
)

// imageAdmission is the record in cells of the catalog's images: pods with other images are refused.
type imageAdmission interface {
	// Admit lets every cell run images, in addition to those that it runs already.
	Admit(ctx context.Context, images []image.Image) error
	// Settle makes every cell run the images that list returns, and no others of the catalog.
	Settle(ctx context.Context, list func(context.Context) ([]image.Image, error)) error
}

// imageCommands returns the commands about the catalog of images.
func imageCommands() []command {
	return []command{
		{name: "images list", run: listImages, summary: "list the catalog of images"},
		{
			name: "images show", usage: "-image IMAGE [-json]", run: showImage,
			summary: "show an image and how many agents run its versions; -json prints it as put takes it",
		},
		{
			name: "images put", usage: "[-force] FILE", operand: "FILE", run: putImage,
			summary: "create or replace an image, described in JSON; - reads it from standard input; -force drops " +
				"versions that agents run",
		},
		{
			name: "images remove", usage: "-image IMAGE [-force]", run: removeImage,
			summary: "remove an image; -force removes one that agents run",
		},
		{
			name: "images admit", run: admitImages,
			summary: "let all cells run the images of the catalog, such as a new cell",
		},
	}
}

// listImages prints one line per entry of the catalog.
func listImages(ctx context.Context, d operator, _ options) error {
	all, err := d.Images.List(ctx)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		d.printf("The catalog is empty: agents run the images of the deployment's settings.\n")
		return nil
	}
	table := tabwriter.NewWriter(d.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "IMAGE\tDEFAULT\tVERSIONS\tMIN PLAN\tNAME")
	for _, i := range all {
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%q\n", i.ID, i.DefaultVersion, len(i.Versions), cmp.Or(i.MinPlan, "-"),
			i.Name)
	}
	return table.Flush()
}

// showImage prints an entry of the catalog and how many agents run each version. With -json it prints what put takes.
func showImage(ctx context.Context, d operator, o options) error {
	i, err := d.Images.Get(ctx, o.image)
	if err != nil {
		return err
	}
	if o.json {
		text, err := json.MarshalIndent(i, "", "  ")
		if err == nil {
			d.printf("%s\n", text)
		}
		return err
	}
	users, err := d.users(ctx, i.ID)
	if err != nil {
		return err
	}
	runtime, err := json.Marshal(i.Runtime)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(d.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "Image\t%s, %q\n", i.ID, i.Name)
	for _, line := range []struct{ name, text string }{
		{"Description", i.Description},
		{"Documentation", i.DocsURL},
		{"Smallest plan", string(i.MinPlan)},
		{"Runtime", strings.Trim(string(runtime), "{}")},
	} {
		if line.text != "" {
			fmt.Fprintf(table, "%s\t%s\n", line.name, line.text)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(table, "\nVERSION\tSTATE\tAGENTS\tSINCE\tBUILD")
	for _, v := range i.Versions {
		state := string(v.State)
		if v.Version == i.DefaultVersion {
			state += ", default"
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\n", v.Version, state, users[v.Reference], date(v.CreatedAt), v.Reference)
	}
	return table.Flush()
}

// users counts the agents that run an image, by the reference of their build. One that is being deleted does not count.
func (d operator) users(ctx context.Context, imageID string) (map[string]int, error) {
	counts := map[string]int{}
	for after := ""; ; {
		listed, err := d.AllAgents.ListAll(ctx, after, listPage)
		if err != nil {
			return nil, err
		}
		for _, a := range listed.Items {
			if s := a.Software(imageID); s != nil && a.Status != agent.Deleting {
				counts[s.Reference]++
			}
		}
		if after = listed.Next; after == "" {
			return counts, nil
		}
	}
}

// putImage writes an entry of the catalog. The cells admit its versions before an agent can take one.
func putImage(ctx context.Context, d operator, o options) error {
	i, err := d.readImage(o.operand)
	if err != nil {
		return err
	}
	former, err := d.Images.Get(ctx, i.ID)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	if err := d.succeed(&i, former); err != nil {
		return err
	}
	if err := d.mayLose(ctx, former, i, o.force); err != nil {
		return err
	}
	if err := d.admit(ctx, i); err != nil {
		return fmt.Errorf("the catalog is as it was: %w", err)
	}
	if _, err := d.Images.Put(ctx, i); err != nil {
		return err
	}
	d.logImage(ctx, "put", i)
	d.printf("The catalog has the image %s with %d versions; new agents take %s within %s.\n", i.ID, len(i.Versions),
		i.DefaultVersion, image.MaxAge)
	return d.settle(ctx)
}

// readImage reads an entry of the catalog from a file, or from standard input for -.
func (d operator) readImage(name string) (image.Image, error) {
	text, err := func() ([]byte, error) {
		if name == "-" {
			return io.ReadAll(d.In)
		}
		return os.ReadFile(name)
	}()
	if err != nil {
		return image.Image{}, err
	}
	var i image.Image
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&i); err != nil {
		return image.Image{}, fmt.Errorf("%s is no entry of the catalog: %w", name, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return image.Image{}, fmt.Errorf("%s has more than one entry of the catalog: put them one by one", name)
	}
	if err := i.Check(); err != nil {
		return image.Image{}, fmt.Errorf("%s is no entry of the catalog:\n  %s", name,
			strings.ReplaceAll(err.Error(), "\n", "\n  "))
	}
	return i, nil
}

// succeed makes an entry the next state of a former one, which is zero for a new entry. A version keeps its build and
// its time for good: agents that run it would differ from their records otherwise.
func (d operator) succeed(i *image.Image, former image.Image) error {
	var errs []error
	for n := range i.Versions {
		v := &i.Versions[n]
		v.CreatedAt = d.Now().UTC()
		stored := slices.IndexFunc(former.Versions, func(f image.Version) bool { return f.Version == v.Version })
		if stored < 0 {
			continue
		}
		f := former.Versions[stored]
		v.CreatedAt = f.CreatedAt
		if f.Reference != v.Reference {
			errs = append(errs, fmt.Errorf("version %s is %s, and cannot become %s: add another version", v.Version,
				f.Reference, v.Reference))
		}
	}
	slices.SortStableFunc(i.Versions, func(a, b image.Version) int { return a.CreatedAt.Compare(b.CreatedAt) })
	i.Revision, i.Rest, i.DefaultBy = former.Revision, former.Rest, former.DefaultBy
	return errors.Join(errs...)
}

// mayLose returns why an entry cannot lose the versions that the next one lacks or withdraws. force lets it lose those
// that agents run, but none that an open release may need.
func (d operator) mayLose(ctx context.Context, former, next image.Image, force bool) error {
	var lost, unavailable []string
	dropped := map[string]bool{}
	for _, f := range former.Versions {
		at := slices.IndexFunc(next.Versions, func(v image.Version) bool { return v.Version == f.Version })
		if at < 0 {
			lost = append(lost, f.Version)
			dropped[f.Reference] = true
		}
		if at < 0 || next.Versions[at].State == image.Withdrawn {
			unavailable = append(unavailable, f.Version)
		}
	}
	if len(unavailable) == 0 {
		return nil
	}
	open, err := d.openReleases(ctx, former.ID)
	if err != nil {
		return err
	}
	for _, r := range open {
		// Agents may go back to any version, and that of before becomes the default one.
		back := r.State == release.Reverting && slices.Contains(unavailable, r.Former.Version)
		if len(lost) > 0 || back || slices.Contains(unavailable, r.Target.Version) {
			return fmt.Errorf("release %s to version %s is %s: end or revert it before versions go (%s)", r.ID,
				r.Target.Version, r.State, strings.Join(unavailable, ", "))
		}
	}
	if len(lost) == 0 || force {
		return nil
	}
	users, err := d.users(ctx, former.ID)
	if err != nil {
		return err
	}
	count := 0
	for reference := range dropped {
		count += users[reference]
	}
	if count > 0 {
		return fmt.Errorf("%d agents run versions of %s that would go (%s): move them to another version first; "+
			"with -force they keep their builds as long as their objects exist", count, former.ID,
			strings.Join(lost, ", "))
	}
	return nil
}

// openReleases finds the releases of an image that are not over.
func (d operator) openReleases(ctx context.Context, imageID string) ([]release.Release, error) {
	const latest = 500 // an image has one open release at most
	all, err := d.Releases.List(ctx, latest)
	return slices.DeleteFunc(all, func(r release.Release) bool {
		return r.Image != imageID || !r.Open() && r.DueAt.IsZero() // one that is done may still move agents
	}), err
}

// removeImage deletes an entry of the catalog. The cells then admit no build of it, but agents that have one keep it.
func removeImage(ctx context.Context, d operator, o options) error {
	i, err := d.Images.Get(ctx, o.image)
	if err != nil {
		return err
	}
	if err := d.mayLose(ctx, i, image.Image{}, o.force); err != nil {
		return err
	}
	if err := d.admit(ctx); err != nil { // changes nothing, but finds out whether all cells answer
		return fmt.Errorf("the catalog is as it was: %w", err)
	}
	if err := d.Images.Remove(ctx, i); err != nil {
		return err
	}
	d.logImage(ctx, "remove", i)
	d.printf("The catalog has no image %s any more.\n", i.ID)
	return d.settle(ctx)
}

// admitImages makes all cells admit the images of the catalog, and no others of a former one.
func admitImages(ctx context.Context, d operator, _ options) error {
	if err := d.admit(ctx); err != nil {
		return err
	}
	if err := d.settle(ctx); err != nil {
		return err
	}
	d.printf("All cells admit the images of the catalog.\n")
	return nil
}

// admit lets all cells run the images of the catalog and more.
func (d operator) admit(ctx context.Context, more ...image.Image) error {
	all, err := d.Images.List(ctx)
	if err != nil {
		return err
	}
	return d.Cells.Admit(ctx, append(all, more...))
}

// settle takes out of the cells what the catalog does not name any more.
func (d operator) settle(ctx context.Context) error {
	if err := d.Cells.Settle(ctx, d.Images.List); err != nil {
		return fmt.Errorf("the catalog has changed, but a cell may admit builds that it no longer names; "+
			"run operator images admit: %w", err)
	}
	return nil
}

// logImage writes who changed the catalog. No organization owns it, so that no audit log has it.
func (d operator) logImage(ctx context.Context, action string, i image.Image) {
	if d.Err == nil {
		return
	}
	slog.New(slog.NewJSONHandler(d.Err, nil)).InfoContext(ctx, "the catalog of images changed", "action", action,
		"image", i.ID, "default_version", i.DefaultVersion, "versions", len(i.Versions), "operator", d.Name,
		"note", d.Note)
}
