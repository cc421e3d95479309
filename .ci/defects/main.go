// Command defects proves the strength of the tests: it plants mistakes, one at a time, in copies of the repository and
// expects the tests that each mistake names to fail. It changes no file of the repository itself. A test that fails often
// waits before it does, so several copies have a mistake at the same time.
//
//	go run -C .ci/defects . [-check | -list] [-area name] [-run regexp] [-copies n]
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"text/tabwriter"
)

// lockFile is the file next to the copies that the process holds that plants defects there.
const lockFile = ".defects-lock"

type options struct {
	list, check bool
	area, run   string
	dir         string
	copies      int
}

func main() {
	var o options
	flag.BoolVar(&o.check, "check", false, "check that texts apply and tests exist, without compiling anything")
	flag.BoolVar(&o.list, "list", false, "list the defects")
	flag.StringVar(&o.area, "area", "", "only the defects of this area")
	flag.StringVar(&o.run, "run", "", "only the defects whose area/name matches this regular expression")
	flag.StringVar(&o.dir, "dir", "", "the folder of the copies (default: one for this repository in the temporary folder)")
	flag.IntVar(&o.copies, "copies", 3, "how many copies have a defect at the same time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, out io.Writer) error {
	root, err := repository(ctx)
	if err != nil {
		return err
	}
	all, err := readLists(filepath.Join(root, ".ci/defects/lists"))
	if err != nil {
		return err
	}
	selected, err := choose(all, o)
	switch {
	case err != nil:
		return err
	case o.check:
		if err := checkAll(root, selected); err != nil {
			return err
		}
		fmt.Fprintf(out, "%d defects apply\n", len(selected))
		return nil
	case o.list:
		return printList(out, selected)
	}
	return plant(ctx, o, root, selected, out)
}

// repository is the root of the working tree.
func repository(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", fmt.Errorf("git rev-parse: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// choose returns the defects that the options select, in the order in which Go compiles least.
func choose(all []*Defect, o options) ([]*Defect, error) {
	pattern, err := regexp.Compile(o.run)
	if err != nil {
		return nil, err
	}
	var selected []*Defect
	for _, d := range all {
		if (o.area == "" || d.Area == o.area) && pattern.MatchString(d.ID()) {
			selected = append(selected, d)
		}
	}
	if len(selected) == 0 {
		return nil, errors.New("no defect has this area and name")
	}
	slices.SortStableFunc(selected, func(a, b *Defect) int { return strings.Compare(a.Package, b.Package) })
	return selected, nil
}

// plant plants defects in several copies. A copy has those of one package after the other, because a test that was
// compiled without a defect is compiled with it in little time.
func plant(ctx context.Context, o options, root string, defects []*Defect, out io.Writer) error {
	dir := o.dir
	if dir == "" {
		sum := sha256.Sum256([]byte(root))
		dir = filepath.Join(os.TempDir(), fmt.Sprintf("planted-defects-%d-%x", os.Getuid(), sum[:4]))
	}
	unlock, err := lock(dir)
	if err != nil {
		return err
	}
	defer unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := &progress{out: out, planned: len(defects)}
	packages := byPackage(defects)
	outcomes := make([][]Outcome, len(packages))
	next := atomic.Int64{}
	var copies sync.WaitGroup
	for n := range max(o.copies, 1) {
		copies.Go(func() {
			r, err := newRunner(ctx, root, filepath.Join(dir, strconv.Itoa(n)), p)
			for err == nil {
				i := int(next.Add(1)) - 1
				if i >= len(packages) {
					return
				}
				outcomes[i], err = r.Run(ctx, packages[i])
			}
			cancel(err) // the first one ends the others
		})
	}
	copies.Wait()
	return errors.Join(context.Cause(ctx), report(out, slices.Concat(outcomes...), len(defects)))
}

// byPackage splits defects that are in the order of their packages. The package with most of them comes first.
func byPackage(defects []*Defect) (all [][]*Defect) {
	for i, d := range defects {
		if i == 0 || d.Package != defects[i-1].Package {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], d)
	}
	slices.SortStableFunc(all, func(a, b []*Defect) int { return len(b) - len(a) })
	return all
}

func newRunner(ctx context.Context, root, dir string, p *progress) (*Runner, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	tree, err := openTree(ctx, root, dir)
	if err != nil {
		return nil, err
	}
	return &Runner{
		Tree: tree,
		Test: func(ctx context.Context, g group, tests []string) (Result, error) {
			return goTest(ctx, dir, g, tests)
		},
		Generate: func(ctx context.Context) error { return generate(ctx, dir) },
		Progress: p,
	}, nil
}

// lock makes dir and refuses a folder in which another process plants defects.
func lock(dir string) (func(), error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another process plants defects in %s; use -dir: %w", dir, err), file.Close())
	}
	return func() { _ = file.Close() }, nil
}

func printList(out io.Writer, defects []*Defect) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "defect\tarea\tpackage\ttests\tbreaks")
	for _, d := range defects {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", d.Name, d.Area, d.Package, strings.Join(d.Tests, " "), d.Breaks)
	}
	return w.Flush()
}

// report prints the table. It returns an error unless all defects were caught.
func report(out io.Writer, outcomes []Outcome, planned int) error {
	count := map[verdict]int{}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "defect\tarea\tpackage\ttests\tverdict\tseconds")
	for _, o := range outcomes {
		d := o.Defect
		count[o.Verdict]++
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%.1f\n",
			d.Name, d.Area, d.Package, strings.Join(d.Tests, " "), o.Verdict, o.Seconds)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, o := range outcomes {
		if o.Verdict != caught {
			fmt.Fprintf(out, "\n%s: %s\n%s\n%s\n", o.Defect.ID(), o.Verdict, o.Defect.Breaks, o.Detail)
		}
	}
	fmt.Fprintf(out, "\n%d of %d defects caught\n", count[caught], planned)
	if count[caught] != planned {
		return fmt.Errorf("%d defects were not caught", planned-count[caught])
	}
	return nil
}
