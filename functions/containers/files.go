package containers

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	slashpath "path"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentexec"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
)

const (
	// MaxUpload is the largest file or archive in a request. Cloud Run takes no body above 32 MiB, and a body must
	// arrive within half a minute.
	MaxUpload = 16 << 20
	// maxTransfer bounds one transfer.
	maxTransfer = 10 * time.Minute
	maxPath     = 4096
	// maxComplaint is how much of a program's complaint is read. It stays out of answers and logs.
	maxComplaint = 4 << 10
)

// filePath is a path in a container.
type filePath string

// JSONSchema implements function.Schemer.
func (filePath) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "string", Pattern: `^/[^\x00]*$`, MaxLength: new(maxPath),
		Examples: []any{"/data/notes.txt"},
		Description: "An absolute path in the agent's container. Changes are possible below the agent's volume, " +
			"/data unless its image has another place for it, and below /tmp.",
	}
}

type fileInput struct {
	path
	Query struct {
		Path filePath `json:"path"`
	} `json:"query"`
}

// name returns the path without a slash at its end. The error is Invalid for a path with dots.
func (in fileInput) name() (string, error) {
	name := slashpath.Clean(string(in.Query.Path))
	if trimmed := strings.TrimRight(string(in.Query.Path), "/"); name != "/" && name != trimmed {
		return "", invalidPath("a path must be absolute and have no . or .. and no empty part")
	}
	return name, nil
}

// checkWritable refuses a path that an agent's container cannot change, or that belongs to the platform.
func checkWritable(a agent.Agent, name string) error {
	volume := cmp.Or(a.Image.DataPath, "/data")
	if strings.HasPrefix(name, volume+"/") || strings.HasPrefix(name, "/tmp/") {
		return nil
	}
	return invalidPath("files can be changed below " + volume + " and /tmp only")
}

func invalidPath(why string) error {
	return fault.Validation(fault.ValueError([]any{"query", "path"}, why))
}

func (s Service) fileRoute(name, method, summary string) function.Route {
	r := s.route(name, method, "files", summary)
	r.Status, r.Holds, r.Audited = http.StatusNoContent, maxTransfer, true
	r.Errors = append(r.Errors, fault.Invalid)
	return r
}

// transfer is the work on a file of an agent.
type transfer struct {
	Service
	agent agent.Agent
}

// open admits a call about a file, and begins its audit entry.
func (s Service) open(ctx context.Context, agentID, program, name string, changes bool) (transfer, error) {
	a, err := s.admit(ctx, agentID)
	switch {
	case err != nil:
	case changes:
		err = checkWritable(a, name)
	default:
		err = s.mayReceive(ctx)
	}
	if err == nil {
		err = s.hold(ctx, a)
	}
	if err != nil {
		return transfer{}, err
	}
	describe(ctx, a, []string{program})
	call.From(ctx).Entry.AddFact("path", name[:min(len(name), maxProgram*4)])
	return transfer{s, a}, call.From(ctx).BeginEntry(ctx, s.Audit)
}

// run runs a program of the container to its end.
func (t transfer) run(ctx context.Context, args []string, input io.Reader, output io.Writer) error {
	complaint := &agentexec.Limited{Limit: maxComplaint}
	code, err := agentexec.Run(ctx, t.Commands, t.agent, agentexec.Task{
		Args: args, Input: input, Output: output, Errors: complaint,
	})
	switch {
	case fault.Code(err) == agentexec.CodeNotFound:
		err = fault.New(fault.Conflict, "image_lacks_program",
			"The agent's image has no program %s, which files need. Add it to the image, or run a program that the "+
				"image has: POST /api/v1/agents/{agent_id}/exec.", args[0])
	case err == nil && args[0] == "tar" && strings.Contains(string(complaint.Bytes), "file changed as we"):
	case err == nil && code != 0:
		err = explainComplaint(string(complaint.Bytes))
	}
	return explain(err, t.agent)
}

// explainComplaint returns the error for what the programs of GNU and of BusyBox complain about. Their text may quote
// names of files, so it is in no error.
func explainComplaint(text string) error {
	for _, known := range []struct {
		text, code, detail string
		kind               fault.Kind
	}{
		{"No such file", "file_not_found", "The agent's container has no file at this path.", fault.NotFound},
		{"Is a directory", "is_a_directory", "The path is a directory. Ask for application/x-tar.", fault.Conflict},
		{
			"Not a directory", "not_a_directory", "The path is not a directory. Ask for application/octet-stream.",
			fault.Conflict,
		},
		{"Permission denied", "file_not_permitted", "The agent's user may not do this.", fault.Conflict},
		{"Operation not permitted", "file_not_permitted", "The agent's user may not do this.", fault.Conflict},
		{"Read-only file system", "file_not_permitted", "The file system of the path is read-only.", fault.Conflict},
		{"No space left", "volume_full", "The agent's volume is full. Delete files.", fault.Conflict},
	} {
		if strings.Contains(text, known.text) {
			return fault.New(known.kind, known.code, "%s", known.detail)
		}
	}
	return fault.New(fault.Conflict, "file_operation_failed",
		"A program of the agent's container could not do this. Try it in a terminal to see why.")
}

// contents are the bytes of a file or a directory.
type contents struct {
	ctx  context.Context //nolint:containedctx // of the request
	name string
	transfer
}

// The media types of contents.
const (
	bytesType = "application/octet-stream"
	tarType   = "application/x-tar"
)

// Reply implements function.Reply.
func (c contents) Reply(http.Header) any {
	return function.Formats{
		{ContentType: bytesType, Stream: func(w io.Writer) error { return c.send(w, "cat", "--", c.name) }},
		{ContentType: tarType, Stream: func(w io.Writer) error {
			return c.send(w, "tar", "-cf", "-", "-C", c.name, ".")
		}},
	}
}

func (c contents) send(w io.Writer, args ...string) error {
	ctx, cancel := context.WithTimeout(c.ctx, maxTransfer)
	defer cancel()
	counted := &counter{to: sentWriter{c.ctx, c.Service, w}}
	err := c.run(ctx, args, nil, counted)
	e := call.From(c.ctx).Entry
	e.AddFact("output_bytes", number(counted.bytes))
	return err
}

type counter struct {
	to    io.Writer
	bytes int64
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.bytes += int64(n)
	return n, err
}

// GetFiles sends a file, or a directory as an archive.
func GetFiles(s Service) function.Route {
	r := s.fileRoute("GetAgentFiles", http.MethodGet, "Get a file or a directory of an agent's container")
	r.Status = http.StatusOK
	r.Handle = function.Handle(func(ctx context.Context, in fileInput) (contents, error) {
		name, err := in.name()
		if err != nil {
			return contents{}, err
		}
		t, err := s.open(ctx, in.id(), "cat or tar", name, false)
		return contents{ctx, name, t}, err
	})
	return r
}

type putInput struct {
	fileInput
	Body function.Streamed `json:"body"`
}

// PutFiles writes a file, or extracts an archive into a directory.
func PutFiles(s Service) function.Route {
	r := s.fileRoute("PutAgentFiles", http.MethodPut, "Write a file or a directory of an agent's container")
	r.BodyLimit = MaxUpload
	r.TooLarge = fault.New(fault.TooLarge, "body_too_large",
		"A request writes at most %d MiB. Use agentctl agents cp, which copies files of any size.", MaxUpload>>20)
	r.Errors = append(r.Errors, fault.BadRequest)
	r.Handle = function.Handle(func(ctx context.Context, in putInput) (function.None, error) {
		name, err := in.name()
		if err != nil {
			return function.None{}, err
		}
		body := call.From(ctx).Body
		if body.MediaType != tarType && body.Length < 0 {
			return function.None{}, fault.New(fault.BadRequest, "length_required",
				"The size of the file is not known. Send the header Content-Length.")
		}
		t, err := s.open(ctx, in.id(), "tar", name, true)
		if err != nil {
			return function.None{}, err
		}
		ctx, cancel := context.WithTimeout(ctx, maxTransfer)
		defer cancel()
		counted := &readCounter{from: body}
		directory, archive := name, io.Reader(counted)
		if body.MediaType != tarType {
			directory = slashpath.Dir(name)
			if archive, err = archiveOf(slashpath.Base(name), body.Length, counted); err != nil {
				return function.None{}, err
			}
		}
		if err = t.run(ctx, []string{"mkdir", "-p", "--", directory}, nil, nil); err == nil {
			err = t.run(ctx, []string{"tar", "-xmf", "-", "-C", directory}, archive, nil)
		}
		call.From(ctx).Entry.AddFact("input_bytes", number(counted.bytes))
		return function.None{}, err
	})
	return r
}

// archiveOf returns an archive with one file, which is not held in memory.
func archiveOf(name string, size int64, body io.Reader) (io.Reader, error) {
	var header bytes.Buffer
	err := tar.NewWriter(&header).WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, ModTime: time.Now().Truncate(time.Second),
	})
	const block = 512
	rest := make([]byte, (block-size%block)%block+2*block)
	return io.MultiReader(&header, body, bytes.NewReader(rest)), err
}

type readCounter struct {
	from  io.Reader
	bytes int64
}

// Read implements io.Reader.
func (c *readCounter) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.bytes += int64(n)
	return n, err
}

// DeleteFiles removes a file, or a directory with all that is in it.
func DeleteFiles(s Service) function.Route {
	r := s.fileRoute("DeleteAgentFiles", http.MethodDelete, "Delete a file or a directory of an agent's container")
	r.Handle = function.Handle(func(ctx context.Context, in fileInput) (function.None, error) {
		name, err := in.name()
		if err != nil {
			return function.None{}, err
		}
		t, err := s.open(ctx, in.id(), "rm", name, true)
		if err != nil {
			return function.None{}, err
		}
		ctx, cancel := context.WithTimeout(ctx, maxTransfer)
		defer cancel()
		return function.None{}, t.run(ctx, []string{"rm", "-rf", "--", name}, nil, nil)
	})
	return r
}
