package agentctl

import (
	"encoding/json"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"agents.example/controlplane/shared/client"
)

// auditCommand is the family of commands for the audit log.
func (t *tool) auditCommand() *cobra.Command {
	c := &cobra.Command{Use: "audit", Short: "Read and verify the organization's audit log (Enterprise plan)"}
	c.AddCommand(t.listAudit(), t.exportAudit(), t.verifyAudit())
	return c
}

// auditFilter has the flags that choose entries.
type auditFilter struct{ from, to, actor, action, target, outcome string }

func (f *auditFilter) define(flags *pflag.FlagSet) {
	flags.StringVar(&f.from, "from", "", "earliest time: 2026-03-02, 2026-03-02T09:30:00Z, or 24h before now")
	flags.StringVar(&f.to, "to", "", "time before which entries were made, in the same forms")
	flags.StringVar(&f.actor, "actor", "", "only calls of the user or API key with this id")
	flags.StringVar(&f.action, "action", "", "only calls of this operation, such as StopAgent")
	flags.StringVar(&f.target, "target", "", "only calls about the object with this id")
	flags.StringVar(&f.outcome, "outcome", "", "only calls that ended so: succeeded, or an error code")
}

// params returns what the API takes.
func (f *auditFilter) params(now time.Time) (client.ExportAuditLogParams, error) {
	p := client.ExportAuditLogParams{ActorID: f.actor, Action: f.action, TargetID: f.target, Outcome: f.outcome}
	var err error
	if p.From, err = pointInTime("--from", f.from, now); err != nil {
		return p, err
	}
	p.To, err = pointInTime("--to", f.to, now)
	return p, err
}

// pointInTime reads a time, a date in the local time zone, or a duration before now. An empty text is the zero time.
func pointInTime(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at, nil
	}
	if at, err := time.ParseInLocation(time.DateOnly, text, time.Local); err == nil {
		return at, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, usagef("%s: %q is not a time. Write 2026-03-02, 2026-03-02T09:30:00Z, or 24h for 24 hours "+
		"before now", flag, text)
}

func (t *tool) listAudit() *cobra.Command {
	var filter auditFilter
	limit := 50
	c := &cobra.Command{
		Use: "list", Short: "List audit log entries, newest first", Args: cobra.NoArgs,
		Long: "List who called which operation on what, and how the call ended. Refused calls are entries, too. " +
			"Values of secrets are never in the log.",
		Example: "  agentctl audit list --action DeleteAgent --from 720h\n" +
			"  agentctl audit list --outcome forbidden --limit 0",
		Annotations: sends("ListAuditLog"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := filter.params(t.app.Now())
			if err != nil {
				return err
			}
			if limit < 0 {
				return usagef("--limit must be 0 or more")
			}
			api, err := t.client()
			if err != nil {
				return err
			}
			return t.showAudit(cmd, api, client.ListAuditLogParams{
				From: p.From, To: p.To, ActorID: p.ActorID, Action: p.Action, TargetID: p.TargetID, Outcome: p.Outcome,
			}, limit)
		},
	}
	filter.define(c.Flags())
	c.Flags().IntVar(&limit, "limit", limit, "show at most this many entries; 0 for all")
	return c
}

func (t *tool) showAudit(cmd *cobra.Command, api *client.Client, p client.ListAuditLogParams, limit int) error {
	p.Limit = pageSize(limit)
	entries, more, err := first(api.ListAuditLog(p).All(cmd.Context()), limit)
	if err != nil {
		return err
	}
	err = t.show(list(entries, func(e client.AuditEntry) string { return e.ID }, auditColumns()))
	if err == nil && more {
		t.note("There are more entries. Use --limit 0 for all of them, or agentctl audit export.")
	}
	return err
}

func auditColumns() []column[client.AuditEntry] {
	return []column[client.AuditEntry]{
		{"TIME", func(e client.AuditEntry) string { return e.CreatedAt.Local().Format(time.DateTime) }},
		{"ACTOR", func(e client.AuditEntry) string {
			return textOr(e.Actor.Email, textOr(e.Actor.KeyPrefix, e.Actor.ID))
		}},
		{"ACTION", func(e client.AuditEntry) string { return e.Action }},
		{"TARGET", func(e client.AuditEntry) string { return textOr(e.Target.Name, textOr(e.Target.ID, "-")) }},
		{"OUTCOME", func(e client.AuditEntry) string { return e.Outcome }},
		{"IP", func(e client.AuditEntry) string { return e.IP }},
	}
}

func (t *tool) exportAudit() *cobra.Command {
	var filter auditFilter
	withSeals := false
	c := &cobra.Command{
		Use: "export", Short: "Write all matching audit log entries as JSON lines", Args: cobra.NoArgs,
		Long: "Write every matching entry to standard output, newest first, one JSON object a line, as they arrive. " +
			"The flag --output has no effect. With --with-seals, the export begins with the seals of the log, so " +
			"that agentctl audit verify can check the file later, without the API.",
		Example: "  agentctl audit export --from 2026-03-01 --to 2026-04-01 | gzip > audit-2026-03.ndjson.gz\n" +
			"  agentctl audit export --with-seals > audit.ndjson",
		Annotations: sends("ExportAuditLog"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := filter.params(t.app.Now())
			if err != nil {
				return err
			}
			if withSeals && filter != (auditFilter{}) {
				return usagef("--with-seals exports the whole log, so that missing entries show: leave out the flags " +
					"that choose entries")
			}
			api, err := t.client()
			if err != nil {
				return err
			}
			if withSeals {
				if err := t.exportSeals(cmd, api); err != nil {
					return err
				}
			}
			var entry json.RawMessage // seals cover the fields that this tool does not know, too
			for _, err := range api.ExportAuditLog(cmd.Context(), p, client.RawLine(&entry)) {
				if err == nil {
					err = t.printJSON(entry, "")
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	filter.define(c.Flags())
	c.Flags().BoolVar(&withSeals, "with-seals", false, "begin with the seals of the log; needs the whole log")
	return c
}
