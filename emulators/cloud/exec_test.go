package cloud_test

import (
	"net/http"
	"testing"
)

// testExec runs commands in an agent's container, through every way in.
func testExec(t *testing.T, d deployment) {
	id := d.create(t, `{"name": "runs commands", "resource_plan": "hobby"}`)
	d.awaitStatus(t, id, "running")
	path := "/api/v1/agents/" + id + "/exec"
	got := d.must(t, http.StatusOK, http.MethodPost, path,
		`{"command": ["sh", "-c", "cat; echo oops >&2; exit 3"], "stdin": "hello"}`)
	checkEqual(t, "exit code", got.body["exit_code"], 3.0)
	checkEqual(t, "stdout", got.body["stdout"], "hello")
	checkEqual(t, "stderr", got.body["stderr"], "oops\n")
	got = d.must(t, http.StatusConflict, http.MethodPost, path, `{"command": ["no-such-program"]}`)
	checkEqual(t, "code without a program", got.body["code"], "program_not_found")
	got = d.must(t, http.StatusOK, http.MethodPost, path, `{"command": ["sleep", "60"], "timeout_seconds": 1}`)
	checkEqual(t, "exit code of a command that takes too long", got.body["exit_code"], nil)
}
