package testtier

import (
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

func TestWriteProgram_CanBeRunWhileOthersStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			name := filepath.Join(dir, string(rune('a'+i)))
			for range 50 {
				WriteProgram(t, name, "#!/bin/sh\n")
				if out, err := exec.CommandContext(t.Context(), name).CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
					return
				}
			}
		})
	}
	group.Wait()
}
