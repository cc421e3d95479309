package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/handoff"
	"agents.example/controlplane/shared/role"
	"agents.example/controlplane/shared/webhook"
)

var errNoPepper = errors.New("API_KEY_PEPPER is required; see Rotate in terraform/README.md")

// maxKeyName is the length of the longest name that the API accepts.
const maxKeyName = 80

// createAPIKey creates a key and prints it: it is shown this once and stored nowhere.
func createAPIKey(ctx context.Context, d operator, o options) error {
	if len(d.Peppers.Present) == 0 {
		return errNoPepper
	}
	wanted := role.Role(o.role)
	if roles := wanted.Values(); !slices.Contains(roles, o.role) {
		return fmt.Errorf("role %q; want one of %v", o.role, roles)
	}
	if o.name = strings.TrimSpace(o.name); o.name == "" || utf8.RuneCountInString(o.name) > maxKeyName {
		return fmt.Errorf("-name must have 1 to %d characters", maxKeyName)
	}
	a, err := d.Accounts.Account(ctx, o.organization) // an organization that does not exist would be created
	if err != nil {
		return err
	}
	if !o.force {
		if err := d.checkPepper(ctx); err != nil {
			return err
		}
	}
	token := apikey.Generate()
	// Clients see ids of creators, which are UUIDs. The audit log has the operator's name.
	creator := uuid.NewSHA1(uuid.NameSpaceURL, []byte("operator#"+d.Name)).String()
	k, err := d.Keys.Create(d.on(ctx, a.ID, "CreateAPIKey"), apikey.Key{
		ID: uuid.NewString(), Name: o.name, Purpose: "other", Role: wanted, Prefix: token[:apikey.PrefixLength],
		CreatedBy: creator, CreatedAt: d.Now().UTC(),
	}.HashedWith(d.Peppers.Present, token))
	if err != nil {
		return err
	}
	if d.Err != nil {
		fmt.Fprintf(d.Err, "Created the API key %s of %s. It is not shown again.\n", k.ID, a.ID)
	}
	d.printf("%s\n", token)
	return nil
}

// checkPepper checks that one key is under a pepper of this command, if there are keys. With another deployment's
// pepper, the command would make a key that no function takes.
func (d operator) checkPepper(ctx context.Context) error {
	errFound, others := errors.New("a key is under a pepper"), 0
	err := d.Keys.EachKey(ctx, func(k apikey.Key) error {
		if d.pepperOf(k) != pepperUnknown {
			return errFound
		}
		others++
		return nil
	})
	switch {
	case errors.Is(err, errFound):
		return nil
	case err == nil && others > 0:
		return fmt.Errorf("none of the %d API keys is under API_KEY_PEPPER, so functions have another one and would "+
			"refuse the new key; use -force to create it anyway", others)
	default:
		return err
	}
}

// recently is the time in which a key that is in use was used.
const recently = 30 * 24 * time.Hour

// keyCount counts the keys under one pepper.
type keyCount struct {
	keys, recent int
	// organizations has the latest use of such a key in each organization.
	organizations map[string]time.Time
}

// showKeys prints how many keys are under each pepper, and who has keys that need the previous one.
func showKeys(ctx context.Context, d operator, _ options) error {
	if len(d.Peppers.Present) == 0 {
		return errNoPepper
	}
	counts := map[string]*keyCount{}
	for _, name := range pepperNames() {
		counts[name] = &keyCount{organizations: map[string]time.Time{}}
	}
	now, expired := d.Now(), 0
	err := d.Keys.EachKey(ctx, func(k apikey.Key) error {
		if k.Expired(now) {
			expired++
			return nil
		}
		c := counts[d.pepperOf(k)]
		c.keys++
		if now.Sub(k.LastUsedAt) < recently {
			c.recent++
		}
		if last := c.organizations[k.OrganizationID]; !k.LastUsedAt.Before(last) {
			c.organizations[k.OrganizationID] = k.LastUsedAt
		}
		return nil
	})
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(d.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PEPPER\tKEYS\tUSED IN 30 DAYS")
	for _, name := range pepperNames() {
		fmt.Fprintf(table, "%s\t%d\t%d\n", name, counts[name].keys, counts[name].recent)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	d.printf("Not counted: %d expired keys.\n", expired)
	if n := counts[pepperUnknown].keys; n > 0 {
		d.printf("%d keys are under none of these peppers, so functions with these peppers refuse them.\n", n)
	}
	if len(d.Peppers.Previous) > 0 {
		return d.showOutdated(*counts[pepperPrevious])
	}
	return nil
}

// The names of peppers in the output.
const (
	pepperPresent  = "present"
	pepperNext     = "next"
	pepperPrevious = "previous"
	pepperUnknown  = "none of these"
)

func pepperNames() []string {
	return []string{pepperPresent, pepperNext, pepperPrevious, pepperUnknown}
}

// pepperOf names the pepper of a key. A key from before peppers had ids was made before the change that is under way.
func (d operator) pepperOf(k apikey.Key) string {
	switch {
	case k.Pepper == d.Peppers.Present.ID():
		return pepperPresent
	case len(d.Peppers.Next) > 0 && k.Pepper == d.Peppers.Next.ID():
		return pepperNext
	case len(d.Peppers.Previous) > 0 && (k.Pepper == d.Peppers.Previous.ID() || k.Pepper == ""):
		return pepperPrevious
	case k.Pepper == "":
		return pepperPresent
	}
	return pepperUnknown
}

// showOutdated prints which organizations have keys that need the previous pepper.
func (d operator) showOutdated(c keyCount) error {
	if c.keys == 0 {
		d.printf("No key needs the previous pepper.\n")
		return nil
	}
	d.printf("%d keys need the previous pepper; each moves to the present one when it is used:\n", c.keys)
	table := tabwriter.NewWriter(d.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ORGANIZATION\tLAST USE")
	for _, id := range slices.SortedFunc(maps.Keys(c.organizations), func(a, b string) int {
		return cmp.Or(c.organizations[b].Compare(c.organizations[a]), cmp.Compare(a, b))
	}) {
		last := "never"
		if at := c.organizations[id]; !at.IsZero() {
			last = date(at)
		}
		fmt.Fprintf(table, "%s\t%s\n", id, last)
	}
	return table.Flush()
}

// showWebhooks prints which organizations have webhooks whose secret is older than a date.
func showWebhooks(ctx context.Context, d operator, o options) error {
	since, err := time.Parse(time.DateOnly, o.since)
	if err != nil {
		return fmt.Errorf("-since must be a date, such as %s", d.Now().Format(time.DateOnly))
	}
	all, older := 0, map[string]int{}
	if err := d.EachWebhook(ctx, func(w webhook.Webhook) error {
		all++
		if w.PresentSecretSince().Before(since) {
			older[w.OrganizationID]++
		}
		return nil
	}); err != nil {
		return err
	}
	table := tabwriter.NewWriter(d.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "ORGANIZATION\tWEBHOOKS WITH A SECRET FROM BEFORE %s\n", date(since))
	sum := 0
	for _, id := range slices.Sorted(maps.Keys(older)) {
		sum += older[id]
		fmt.Fprintf(table, "%s\t%d\n", id, older[id])
	}
	fmt.Fprintf(table, "all\t%d of %d\n", sum, all)
	return table.Flush()
}

// createSigningKey makes a key that signs links to dashboards, statements about audit logs and receipts of deletions.
// The private key goes to a new file that only its owner can read, and never to the output. The public keys that are
// published stay in the new set, so that it verifies what former keys signed.
func createSigningKey(_ context.Context, d operator, o options) error {
	published, err := readKeySet(o.present, d.In)
	if err != nil {
		return fmt.Errorf("the present keys: %w", err)
	}
	private, public, err := handoff.Generate()
	if err != nil {
		return err
	}
	created, err := handoff.ParseKeySet(public)
	if err != nil {
		return err
	}
	set, err := json.Marshal(published.With(created))
	if err != nil {
		return err
	}
	// The value of a variable of Terraform is a text. A text in JSON has the same form, because keys have no ${.
	setting, err := json.Marshal(string(set))
	if err != nil {
		return err
	}
	file, err := os.OpenFile(o.private, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("the private key needs a new file: %w", err)
	}
	_, err = file.WriteString(private)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	d.printf("handoff_public_keys = %s\n", setting)
	return nil
}

// readKeySet reads public keys from a file, or from standard input for -.
func readKeySet(name string, in io.Reader) (handoff.KeySet, error) {
	if name == "-" {
		text, err := io.ReadAll(in)
		if err != nil {
			return handoff.KeySet{}, err
		}
		return handoff.ParseKeySet(string(text))
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return handoff.KeySet{}, err
	}
	return handoff.ParseKeySet(string(text))
}
