//go:build unix

package process

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// guardScript runs its arguments and kills the whole group at the end of its standard input, which is a pipe whose
// other end only this process holds. On SIGTERM (sent to the group) the shell stays until the program has ended, so
// that waiting for the shell is waiting for the program.
const guardScript = `
exec 3<&0 </dev/null
trap : TERM
"$@" 3<&- &
child=$!
{ cat <&3 >/dev/null; kill -KILL 0; } >/dev/null 2>&1 &
watcher=$!
exec 3<&-
wait "$child"; code=$?
while kill -0 "$child" 2>/dev/null; do wait "$child"; code=$?; done
kill -KILL "$watcher" 2>/dev/null
exit "$code"
`

// wrapInShell runs cmd under a shell that ends it when this process ends. It is used where the kernel can't do it.
func wrapInShell(cmd *exec.Cmd) (release func(), err error) {
	if cmd.Err != nil {
		return nil, cmd.Err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make the pipe that guards the child: %w", err)
	}
	cmd.Args = append([]string{"sh", "-c", guardScript, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	cmd.Stdin = read
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return func() { _ = read.Close(); _ = write.Close() }, nil
}
