package agentctl

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/audit/seal"
	"agents.example/controlplane/shared/client"
)

// exportSeals writes the seals of the log as lines of an export. It reads them before the entries, so that the export
// has every entry of its seals.
func (t *tool) exportSeals(cmd *cobra.Command, api *client.Client) error {
	var line struct {
		Seal json.RawMessage `json:"seal"`
	}
	for _, err := range api.ExportAuditSeals(cmd.Context(), client.RawLine(&line.Seal)) {
		if err == nil {
			err = t.printJSON(line, "")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *tool) verifyAudit() *cobra.Command {
	kept := ""
	c := &cobra.Command{
		Use: "verify [FILE]", Short: "Find changed, missing, added and moved audit log entries",
		Args: cobra.MaximumNArgs(1),
		Long: "Compare audit log entries with the seals of the log. With FILE, or - for standard input, verify an " +
			"export that --with-seals made, without the API. Without FILE, the API verifies the log that it has. " +
			"The exit code is 1 if an entry or a seal is wrong.\n\n" +
			"Seals show what was changed after it was sealed, up to an hour and a half after the call. Whoever can " +
			"write the database of the API can also write new seals: to find that out, keep an export, or the newest " +
			"seal that this command prints, elsewhere, and give it with --kept.",
		Example: "  agentctl audit verify audit.ndjson\n" +
			"  gunzip -c audit.ndjson.gz | agentctl audit verify - --kept audit-2026-01.ndjson\n" +
			"  agentctl audit verify --kept 12:5f1c0e... -o json",
		Annotations: sends("VerifyAuditLog"),
		RunE: func(cmd *cobra.Command, args []string) error {
			anchor, err := readAnchor(kept)
			if err != nil {
				return err
			}
			found, err := t.verification(cmd, args, anchor)
			if err != nil {
				return err
			}
			if err := t.showVerification(found); err != nil || found.Verified {
				return err
			}
			return errors.New("the audit log was changed: " + describeProblem(found.Problems[0]))
		},
	}
	c.Flags().StringVar(&kept, "kept", "", "a `seal` that you kept, as SEQUENCE:HASH, or an older export with seals")
	return c
}

// readAnchor reads the flag --kept. It is nil if the flag is empty.
func readAnchor(kept string) (*seal.Anchor, error) {
	if kept == "" {
		return nil, nil
	}
	if a, err := seal.ParseAnchor(kept); err == nil {
		return &a, nil
	}
	f, err := openFile(kept)
	if err != nil {
		return nil, usagef("--kept is neither SEQUENCE:HASH nor a file: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	a, err := seal.NewestOf(f)
	if err != nil {
		return nil, usagef("--kept: %w", err)
	}
	return &a, nil
}

// openFile opens a file. Its error does not repeat the name, which may be a value that must stay secret.
func openFile(name string) (*os.File, error) {
	f, err := os.Open(name) //nolint:gosec // the user names the file
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return f, err
}

// verification verifies a file, or makes the API verify the log.
func (t *tool) verification(
	cmd *cobra.Command, args []string, anchor *seal.Anchor,
) (*client.AuditVerification, error) {
	if len(args) > 0 {
		return t.verifyFile(args[0], anchor)
	}
	api, err := t.client()
	if err != nil {
		return nil, err
	}
	var p client.VerifyAuditLogParams
	if anchor != nil {
		p.Seal = anchor.String()
	}
	return api.VerifyAuditLog(cmd.Context(), p)
}

func (t *tool) verifyFile(name string, anchor *seal.Anchor) (*client.AuditVerification, error) {
	from := t.stdin
	if name != "-" {
		f, err := openFile(name)
		if err != nil {
			return nil, usagef("FILE cannot be opened: %w", err)
		}
		defer f.Close() //nolint:errcheck // it was only read
		from = f
	}
	r, err := seal.VerifyExport(from, t.app.Now, anchor)
	if errors.Is(err, seal.ErrNoSeals) {
		return nil, withNext(err, "Export it with: agentctl audit export --with-seals")
	}
	if err != nil {
		return nil, err
	}
	shown, err := json.Marshal(r.Show(anchor, nil))
	if err != nil {
		return nil, err
	}
	found := &client.AuditVerification{}
	return found, json.Unmarshal(shown, found)
}

// showVerification prints a verification. Its table names every problem.
func (t *tool) showVerification(found *client.AuditVerification) error {
	var names []string
	for _, p := range found.Problems {
		names = append(names, textOr(p.EntryID, ""))
	}
	err := t.show(result{value: found, names: names, table: func(w io.Writer) error {
		fmt.Fprintf(w, "%d entries, %d of them not sealed yet; %d sealed entries have expired\n", found.Entries,
			found.Unsealed, found.Expired)
		if found.NewestSeal != nil {
			fmt.Fprintf(w, "%d seals, until %s\nNewest seal: %d:%s\n", found.Seals,
				found.SealedUntil.Local().Format(time.DateTime), found.NewestSeal.Sequence,
				harmless(found.NewestSeal.Hash))
		}
		for _, p := range found.Problems {
			fmt.Fprintln(w, strings.ToUpper(string(p.Code[:1]))+string(p.Code[1:])+": "+describeProblem(p))
		}
		if more := found.ProblemCount - int64(len(found.Problems)); more > 0 {
			fmt.Fprintf(w, "and %d more problems\n", more)
		}
		return nil
	}})
	if err == nil && found.SealFound != nil && !*found.SealFound && found.Verified {
		t.note("The seal that you kept has expired. Nothing could be compared with it.")
	}
	return err
}

// describeProblem says in a sentence what is wrong.
func describeProblem(p client.AuditProblem) string {
	id, sequence := harmless(textOr(p.EntryID, "")), int64(0)
	if p.Sequence != nil {
		sequence = *p.Sequence
	}
	switch seal.Code(p.Code) {
	case seal.EntryChanged:
		return fmt.Sprintf("entry %s differs from what seal %d has", id, sequence)
	case seal.EntryMissing:
		return fmt.Sprintf("entry %s is missing, which seal %d has", id, sequence)
	case seal.EntryAdded:
		return fmt.Sprintf("entry %s was added after its time had been sealed", id)
	case seal.EntryReordered:
		return fmt.Sprintf("entry %s was moved to another place of the log", id)
	case seal.SealBroken:
		return fmt.Sprintf("seal %d was changed, or does not follow the one before it", sequence)
	}
	return fmt.Sprintf("%s (entry %q, seal %d)", p.Code, id, sequence)
}
