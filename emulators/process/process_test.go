//go:build unix

package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// parentRole makes the test binary a parent that starts a child and waits until it is killed.
const parentRole = "PROCESS_TEST_PARENT"

// TestMain acts as the parent if parentRole is set, and runs the tests otherwise. It extends PATH because the tests
// start programs that every system has, even if PATH contains only Go.
func TestMain(m *testing.M) {
	if err := os.Setenv("PATH", os.Getenv("PATH")+":/usr/bin:/bin"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if role := os.Getenv(parentRole); role != "" {
		os.Exit(runParent(role, os.Args[len(os.Args)-1]))
	}
	goleak.VerifyTestMain(m)
}

// inputRole makes the parent start a child that cleans up when its input ends.
const inputRole = "input"

// guards returns the two ways to tie a child to its parent. They are the same except on Linux.
func guards() map[string]func(*exec.Cmd) (func(), error) {
	return map[string]func(*exec.Cmd) (func(), error){"system": bindToParent, "shell": wrapInShell}
}

func runParent(role, dir string) int {
	script := "exec 9>\"$1\"; exec sleep 600"
	if role == inputRole {
		script = "exec 9>\"$1\"; cat; echo >\"$2\""
	}
	_, err := Start(context.Background(), Options{
		Name: "sleeper", Path: "sh",
		Args:    []string{"-c", script, "sh", filepath.Join(dir, "alive"), filepath.Join(dir, "cleaned")},
		LogFile: filepath.Join(dir, "log"), bind: guards()[role], EndsWithInput: role == inputRole,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("started")
	select {}
}

// lifeline makes a FIFO that a child opens for writing. Its reader sees the end when every process that has it open is
// gone.
func lifeline(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "alive")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// awaitDeath waits until a child has opened the FIFO, calls kill, and waits until no process has the FIFO open.
func awaitDeath(t *testing.T, path string, kill func()) {
	t.Helper()
	alive, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = alive.Close() }()
	kill()
	if _, err := io.Copy(io.Discard, alive); err != nil {
		t.Fatal(err)
	}
}

func TestStart_ChildDiesWithAKilledParent(t *testing.T) {
	t.Parallel()
	for role := range guards() {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			killParent(t, role, t.TempDir())
		})
	}
}

// TestStart_ChildCleansUpAfterAKilledParent kills the parent of a program that ends with its input.
func TestStart_ChildCleansUpAfterAKilledParent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	killParent(t, inputRole, dir)
	if _, err := os.Stat(filepath.Join(dir, "cleaned")); err != nil {
		t.Errorf("the child did not clean up: %v", err)
	}
}

// killParent starts a parent, kills it when its child runs, and waits until the child has ended.
func killParent(t *testing.T, role, dir string) {
	t.Helper()
	path := lifeline(t, dir)
	parent := exec.Command(os.Args[0], dir)
	parent.Env = append(os.Environ(), parentRole+"="+role)
	parent.Stderr = os.Stderr
	output, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(output).ReadString('\n'); line != "started\n" {
		t.Fatalf("the parent did not start its child: %q, %v", line, err)
	}
	awaitDeath(t, path, func() {
		if err := parent.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = parent.Wait()
	})
}

func TestClose_EndsTheWholeGroup(t *testing.T) {
	t.Parallel()
	scripts := map[string]string{
		"ends on SIGTERM":                `exec 9>"$1"; sleep 600 & sleep 600`,
		"ignores SIGTERM":                `trap '' TERM; exec 9>"$1"; sleep 600 & sleep 600`,
		"grandchild ignores SIGTERM":     `exec 9>"$1"; (trap '' TERM; exec sleep 600) & exec sleep 600`,
		"exits with status 0 on SIGTERM": `exec 9>"$1"; trap 'exit 0' TERM; sleep 600 & wait`,
	}
	for guard, bind := range guards() {
		for name, script := range scripts {
			t.Run(guard+"/"+name, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				path := lifeline(t, dir)
				child, err := Start(t.Context(), Options{
					Name: "child", Path: "sh", Args: []string{"-c", script, "sh", path},
					LogFile: filepath.Join(dir, "log"), Grace: 200 * time.Millisecond, bind: bind,
				})
				if err != nil {
					t.Fatal(err)
				}
				awaitDeath(t, path, func() {
					for range 2 {
						if err := child.Close(); err != nil {
							t.Fatalf("Close: %v", err)
						}
					}
				})
				select {
				case <-child.Done():
				default:
					t.Fatal("Close returned before the child had ended")
				}
			})
		}
	}
}

func TestStart_ReportsWhyItFailed(t *testing.T) {
	t.Parallel()
	never := func(context.Context) error { return errors.New("not yet") }
	tests := map[string]struct {
		options Options
		cancel  bool // when the child was not ready twice
		want    []string
		is      error
	}{
		"exits early": {
			options: Options{Path: "sh", Args: []string{"-c", "echo one; echo the reason >&2; exit 3"}, Ready: never},
			want:    []string{"probe exited unexpectedly", "exit status 3", "one\nthe reason"},
		},
		"exits early without output": {
			options: Options{Path: "true", Ready: never},
			want:    []string{"status 0", "its log is empty"},
		},
		"never ready": {
			options: Options{Path: "sh", Args: []string{"-c", "echo still loading; exec sleep 600"}, Ready: never},
			cancel:  true,
			want:    []string{"not ready in time", "not yet"},
			is:      context.Canceled,
		},
		"gives up": {
			options: Options{
				Path: "sleep", Args: []string{"600"},
				Ready: func(context.Context) error { return fmt.Errorf("%w: port taken", ErrGiveUp) },
			},
			want: []string{"port taken"},
			is:   ErrGiveUp,
		},
		"no such program": {
			options: Options{Path: "/no/such/program"}, want: []string{"start probe", "no such file"},
			is: os.ErrNotExist,
		},
	}
	for guard, bind := range guards() {
		for name, test := range tests {
			if guard == "shell" && errors.Is(test.is, os.ErrNotExist) {
				continue // the shell exits with status 127 instead
			}
			t.Run(guard+"/"+name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				options := test.options
				if checks := 0; test.cancel {
					options.Ready = func(ctx context.Context) error {
						if checks++; checks == 2 {
							cancel()
						}
						return test.options.Ready(ctx)
					}
				}
				options.Name, options.LogFile, options.bind = "probe", filepath.Join(t.TempDir(), "logs", "log"), bind
				child, err := Start(ctx, options)
				if err == nil {
					_ = child.Close()
					t.Fatal("Start succeeded, want an error")
				}
				if test.is != nil && !errors.Is(err, test.is) {
					t.Errorf("error = %v, want one that is %v", err, test.is)
				}
				for _, want := range test.want {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("error = %q, want it to contain %q", err, want)
					}
				}
			})
		}
	}
}

func TestStart_RequiresALogFile(t *testing.T) {
	t.Parallel()
	if _, err := Start(t.Context(), Options{Name: "probe", Path: "true"}); err == nil {
		t.Fatal("Start without a log file succeeded, want an error")
	}
}

func TestClose_ReportsAnUnexpectedExit(t *testing.T) {
	t.Parallel()
	child, err := Start(t.Context(),
		Options{
			Name: "probe", Path: "sh", Args: []string{"-c", "echo bye; exit 7"},
			LogFile: filepath.Join(t.TempDir(), "log"),
		})
	if err != nil {
		t.Fatal(err)
	}
	<-child.Done()
	err = child.Close()
	if err == nil {
		t.Fatal("Close returned no error")
	}
	for _, want := range []string{"exit status 7", "bye"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("Close: %v, want it to contain %q", err, want)
		}
	}
}

func TestStart_SetsEnvironmentAndDirectory(t *testing.T) {
	t.Parallel()
	for guard, bind := range guards() {
		t.Run(guard, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			mark := filepath.Join(dir, "mark")
			child, err := Start(t.Context(), Options{
				Name: "probe", Path: "sh",
				Args: []string{
					"-c", `printf %s "$GREETING $1" >mark.new; mv mark.new mark; exec sleep 600`, "sh",
					"two words",
				},
				Env: []string{"GREETING=hello"}, Dir: dir, LogFile: filepath.Join(dir, "log"), bind: bind,
				Ready: func(context.Context) error { _, err := os.Stat(mark); return err },
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = child.Close() }()
			if got, err := os.ReadFile(mark); err != nil || string(got) != "hello two words" {
				t.Fatalf("the child wrote %q, %v; want %q", got, err, "hello two words")
			}
			if child.Pid() <= 1 {
				t.Fatalf("Pid = %d, want that of a child", child.Pid())
			}
		})
	}
}
