package codesample

import (
	"bytes"
	"encoding/json"
	"strings"
)

// curl returns a command line. It uses the variables that the command line tool
// reads, AGENTS_BASE_URL and AGENTS_API_KEY, and one for each parameter of the path.
func curl(o *operation) string {
	target := o.path
	for _, name := range o.pathParameters() {
		target = strings.ReplaceAll(target, "{"+name+"}", "$"+strings.ToUpper(name))
	}
	command := "curl"
	if o.method != "GET" {
		command += " -X " + o.method
	}
	command += ` "$AGENTS_BASE_URL` + target + o.requiredQuery() + `"`
	if o.Security == nil || len(*o.Security) > 0 {
		command += " \\\n  -H \"Authorization: Bearer $AGENTS_API_KEY\""
	}
	if body, _ := o.body(); body != nil {
		command += " \\\n  -H \"Content-Type: application/json\" \\\n  -d " + quote(indent(body))
	}
	if _, bytes := o.RequestBody.Content["application/octet-stream"]; bytes {
		command += " \\\n  -H \"Content-Type: application/octet-stream\" \\\n  --data-binary 'The content of the file.'"
	}
	return command
}

// quote returns a word of a shell's command line.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// indent returns JSON on as many lines as it has members.
func indent(b json.RawMessage) string {
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		return string(b)
	}
	return out.String()
}
