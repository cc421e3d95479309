package bench

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// sizeRows compares each role's layer of the image with that of the least program that reads a document. It is
// compressed as it is when an instance downloads it.
func sizeRows(dir string) ([]Row, error) {
	least, err := compressedSize(filepath.Join(dir, "leastread"))
	if err != nil {
		return nil, err
	}
	var rows []Row
	// In api are 820 KiB that it serves: the console, the playground and the description.
	for _, role := range []struct {
		name string
		most float64
	}{{"api", 1.65}, {"worker", 2.1}, {"accounts", 2.5}} {
		size, err := compressedSize(filepath.Join(dir, role.name))
		if err != nil {
			return nil, err
		}
		rows = append(rows, Row{
			ID: "P5", What: "image of " + role.name, Ours: size, Limit: least, Unit: "KiB", Most: role.most,
			Note: "limit: functions-framework with one read of Firestore",
		})
	}
	return rows, nil
}

// compressedSize returns what a file takes in a layer of an image, in KiB.
func compressedSize(name string) (float64, error) {
	content, err := os.ReadFile(name) //nolint:gosec // it was just built
	if err != nil {
		return 0, err
	}
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	if _, err := w.Write(content); err != nil {
		return 0, err
	}
	err = w.Close()
	return float64(compressed.Len() / 1024), err
}

// initRows counts what the packages of each role allocate before main.
func initRows(ctx context.Context, dir string) ([]Row, error) {
	rows := []Row{
		{What: "start of api", Limit: startAllocations, Most: 1},
		{What: "start of worker", Limit: startAllocations, Most: 1},
		{
			What: "start of accounts", Limit: providerAllocations, Most: accountsRatio,
			Note: "limit: functions-framework and the libraries of Firestore and Firebase",
		},
	}
	for i := range rows {
		r := &rows[i]
		count, err := initAllocations(ctx, filepath.Join(dir, strings.TrimPrefix(r.What, "start of ")))
		if err != nil {
			return nil, err
		}
		r.ID, r.Ours, r.Unit = "P5", float64(count), "allocations before main"
	}
	return rows, nil
}

var initLine = regexp.MustCompile(`(?m)^init .* (\d+) allocs$`)

// initAllocations counts what the packages of a program allocate before main. Without a configuration, the program ends
// soon after that.
func initAllocations(ctx context.Context, binary string) (total int, err error) {
	cmd := exec.CommandContext(ctx, binary)
	cmd.Env = []string{"GODEBUG=inittrace=1"}
	out, err := cmd.CombinedOutput()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		return 0, err
	}
	for _, line := range initLine.FindAllSubmatch(out, -1) {
		count, err := strconv.Atoi(string(line[1]))
		if err != nil {
			return 0, err
		}
		total += count
	}
	if total == 0 {
		return 0, fmt.Errorf("%s printed no trace of its start:\n%s", binary, out)
	}
	return total, nil
}
