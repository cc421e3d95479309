package agentctl

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
)

func (t *tool) agentCopy() *cobra.Command {
	return &cobra.Command{
		Use: "cp SOURCE TARGET", Short: "Copy files into an agent's container, or out of it", Args: cobra.ExactArgs(2),
		Long: "Copy a file or a directory of any size. One of SOURCE and TARGET is AGENT:/path in an agent's " +
			"container, the other one a path of this machine, with ./ in front if it has a colon. Both name the file " +
			"or directory itself, not the directory that it goes to. But a file whose TARGET is . or .. or has a " +
			"slash at the end goes there under its own name. If such a directory is there on this machine, the files " +
			"of another one are added to it only where SOURCE has a slash at the end, too: the container decides " +
			"what SOURCE is. The container's image must have tar. Only files and directories are copied, no links.",
		Example: "  agentctl agents cp notes.txt my-agent:/data/notes.txt\n" +
			"  agentctl agents cp notes.txt my-agent:/data/\n" +
			"  agentctl agents cp my-agent:/data ./backup",
		RunE: func(cmd *cobra.Command, args []string) error {
			from, fromAgent := remotePath(args[0])
			to, toAgent := remotePath(args[1])
			if (fromAgent == "") == (toAgent == "") {
				return usagef("one of SOURCE and TARGET must be AGENT:/path, and the other one a path of this machine")
			}
			api, a, err := t.clientAndAgent(cmd.Context(), fromAgent+toAgent)
			if err != nil {
				return err
			}
			r := remote{api, a.ID}
			if fromAgent != "" {
				return r.download(cmd.Context(), from, to)
			}
			return r.upload(cmd.Context(), from, to)
		},
	}
}

// remotePath splits AGENT:/path. Other paths are of this machine.
func remotePath(argument string) (name, agent string) {
	agent, name, ok := strings.Cut(argument, ":/")
	if !ok || agent == "" || strings.ContainsAny(agent, "/.") {
		return argument, ""
	}
	return "/" + name, agent
}

// isDirectory reports whether a path can only be that of a directory.
func isDirectory(name string) bool {
	last := name[strings.LastIndex(name, "/")+1:]
	return last == "" || last == "." || last == ".."
}

// remote is the container of an agent.
type remote struct {
	api     *client.Client
	agentID string
}

// tar runs tar in the container.
func (r remote) tar(ctx context.Context, input io.Reader, output io.Writer, args ...string) error {
	params := client.TerminalParams{Command: append([]string{"tar"}, args...), Plain: true}
	s, err := openSession(ctx, r.api, r.agentID, params, handshakeTime)
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // it has ended
	var complaint bytes.Buffer
	err = s.run(ctx, input, output, &limitedBuffer{&complaint})
	if exit, ok := errors.AsType[remoteExit](err); ok {
		return fmt.Errorf("tar in the container ended with exit code %d: %s", exit.code,
			strings.TrimSpace(harmlessLines(complaint.String())))
	}
	return err
}

// limitedBuffer keeps the beginning of what is written.
type limitedBuffer struct{ *bytes.Buffer }

// Write implements io.Writer.
func (b *limitedBuffer) Write(p []byte) (int, error) {
	const limit = 4 << 10
	_, err := b.Buffer.Write(p[:min(len(p), max(0, limit-b.Len()))])
	return len(p), err
}

// upload sends a file or a directory as an archive, while it is read.
func (r remote) upload(ctx context.Context, from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return usagef("%s is neither a file nor a directory. Save what it has in a file, and copy that", from)
	}
	if !info.IsDir() && isDirectory(to) {
		to = path.Join(to, info.Name())
	}
	to = path.Clean(to)
	if from, err = filepath.EvalSymlinks(from); err != nil { // pack follows no links
		return err
	}
	read, write := io.Pipe()
	go func() { write.CloseWithError(pack(write, from, path.Base(to))) }()
	defer read.Close() //nolint:errcheck // ends pack
	return r.tar(ctx, read, io.Discard, "-xmf", "-", "-C", path.Dir(to))
}

// pack writes an archive of a file or a directory, which has another name there.
func pack(w io.Writer, from, name string) error {
	archive := tar.NewWriter(w)
	err := filepath.WalkDir(from, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() && !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(from, file)
		if err != nil {
			return err
		}
		header, err := tar.FileInfoHeader(info, "")
		if err != nil {
			return err
		}
		header.Name = path.Join(name, filepath.ToSlash(inside))
		header.Uid, header.Gid, header.Uname, header.Gname = 0, 0, "", ""
		if err := archive.WriteHeader(header); err != nil || info.IsDir() {
			return err
		}
		return copyFile(archive, file)
	})
	if err != nil {
		return err // without the trailer: a part must not look like the whole
	}
	return archive.Close()
}

func copyFile(to io.Writer, name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // it is only read
	_, err = io.Copy(to, file)
	return err
}

// download writes a file or a directory of a container, while its archive arrives.
func (r remote) download(ctx context.Context, from, to string) error {
	below := isDirectory(from) || !isDirectory(filepath.ToSlash(to))
	if !below {
		_, err := os.Stat(to)
		below = errors.Is(err, fs.ErrNotExist)
	}
	from = path.Clean(from)
	read, write := io.Pipe()
	unpacked := make(chan error, 1)
	go func() {
		err := unpack(read, path.Base(from), to, below)
		read.CloseWithError(err)
		unpacked <- err
	}()
	// A name that begins with - is no option.
	err := r.tar(ctx, strings.NewReader(""), write, "-cf", "-", "-C", path.Dir(from), "./"+path.Base(from))
	write.CloseWithError(err)
	if local := <-unpacked; err == nil {
		return local
	}
	return err
}

// unpack writes the files of an archive, whose names begin with name, below to. The container decides what the archive
// has, so no name leads out of there: os.Root refuses it. Unless name may be a directory whose files go below to,
// nothing else that is there is replaced.
func unpack(from io.Reader, name, to string, below bool) error {
	folder, base := filepath.Dir(to), filepath.Base(to)
	if isDirectory(filepath.ToSlash(to)) {
		folder, base = to, "."
	}
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing is written to it
	for archive := tar.NewReader(from); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, from)
			return err
		}
		if err != nil {
			return err
		}
		target, err := placeOf(header.Name, name, base)
		if err != nil {
			return err
		}
		if !below && (target != base || header.Typeflag == tar.TypeDir) {
			return usagef("%s is a directory. To add its files to %s, put a slash at the end of SOURCE, too",
				harmless(name), to)
		}
		switch header.Typeflag {
		case tar.TypeLink: // another name of a file that came before
			var first string
			if first, err = placeOf(header.Linkname, name, base); err == nil {
				err = linkFile(root, first, target)
			}
		case tar.TypeDir:
			err = root.MkdirAll(target, 0o750)
		case tar.TypeReg:
			if target == "." { // a file goes into the directory
				target = name
			}
			err = writeFile(root, target, header.FileInfo().Mode().Perm(), archive)
		}
		if err != nil {
			return err
		}
	}
}

// placeOf returns where an entry of an archive, whose names begin with name, is written to below base.
func placeOf(entry, name, base string) (string, error) {
	inside, ok := strings.CutPrefix(path.Clean(entry), name)
	// Where a backslash separates names, too, other names lead upwards.
	if !ok || inside != "" && (inside[0] != '/' || !filepath.IsLocal(filepath.FromSlash(inside[1:]))) {
		return "", fmt.Errorf("the container's archive has the unexpected file %q", entry)
	}
	return filepath.Join(base, filepath.FromSlash(inside)), nil
}

// linkFile gives a file another name, as tar does, or makes a copy of it where files have one name only.
func linkFile(root *os.Root, first, target string) error {
	part := partOf(target)
	if root.Link(first, part) == nil {
		err := root.Rename(part, target)
		_ = root.Remove(part) // it is left if the target was the same file before
		return err
	}
	file, err := root.Open(first)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it is a link, which has two names and is not copied
	}
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // it is only read
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return writeFile(root, target, info.Mode().Perm(), file)
}

// partOf returns the name of a file until it is complete.
func partOf(name string) string {
	return filepath.Join(filepath.Dir(name), ".agentctl-"+rand.Text()+".part")
}

// writeFile writes a file. What is incomplete never has its name. What is there already and no file, such as a device
// or a link, is written to; a file keeps its permissions.
func writeFile(root *os.Root, name string, mode fs.FileMode, content io.Reader) error {
	part := partOf(name)
	flags := os.O_CREATE | os.O_WRONLY | os.O_EXCL
	switch there, err := root.Lstat(name); {
	case err != nil: // most often, there is none
	case there.Mode().IsRegular() && there.Mode().Perm()&0o200 != 0:
		mode = there.Mode().Perm()
	default: // the system refuses to open what is read-only
		part, flags = name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC
	}
	file, err := root.OpenFile(part, flags, mode|0o200)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	if err = errors.Join(err, file.Close()); part == name {
		return err
	}
	if err == nil {
		err = root.Rename(part, name)
	}
	if err != nil {
		_ = root.Remove(part)
	}
	return err
}
