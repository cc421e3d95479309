package agentctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"agents.example/controlplane/functions/agentctl/profile"
	"agents.example/controlplane/shared/client"
	"agents.example/controlplane/shared/handoff"
)

// keysPath is where the API publishes the keys that verify receipts.
const keysPath = "/.well-known/jwks.json"

func (t *tool) verifyReceipt() *cobra.Command {
	keysFile := ""
	c := &cobra.Command{
		Use: "verify FILE", Short: "Verify the receipt of an agent's deletion", Args: cobra.ExactArgs(1),
		Long: "Verify the receipt of an agent's deletion, and print what it says. FILE, or - for standard input, has " +
			"the output of agentctl agents receipt -o json, or the receipt alone. With --jwks, the command uses the " +
			"public keys in a file and sends nothing. Without it, it fetches the keys that the API publishes, which " +
			"needs no API key. The exit code is 1 if the receipt is not valid.",
		Example: "  agentctl verify receipt.json --base-url https://api.example.com\n" +
			"  curl -s https://api.example.com" + keysPath + " > jwks.json\n" +
			"  agentctl verify receipt.json --jwks jwks.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := t.openText("FILE", args[0])
			if err != nil {
				return err
			}
			receipt, stated, err := parseReceipt(text)
			if err != nil {
				return err
			}
			keys, err := t.receiptKeys(cmd.Context(), keysFile)
			if err != nil {
				return err
			}
			claims, err := handoff.VerifyReceipt(receipt, keys)
			if err != nil {
				return fmt.Errorf("the receipt is not valid: %w", err)
			}
			return t.showVerified(claims, stated)
		},
	}
	c.Flags().StringVar(&keysFile, "jwks", "", "`file` with the public keys, a JSON Web Key Set")
	return c
}

// openText reads a file that an argument names; - is standard input.
func (t *tool) openText(argument, name string) (string, error) {
	if name == "-" {
		return readAll(t.stdin, maxRequest)
	}
	f, err := openFile(name)
	if err != nil {
		return "", usagef("%s cannot be opened: %w", argument, err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	return readAll(f, maxRequest)
}

// parseReceipt returns the receipt in a text, and the deletion around it if the text is the answer of the API.
func parseReceipt(text string) (string, *client.Deletion, error) {
	text = strings.TrimSpace(text)
	if !strings.HasPrefix(text, "{") {
		return text, nil, nil
	}
	var d client.Deletion
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return "", nil, invalidf("FILE is neither a receipt nor the JSON of agentctl agents receipt: %w", err)
	}
	if d.Receipt == nil {
		return "", nil, withNext(errors.New("the deletion in FILE has no receipt"),
			"Get it once the agent is deleted: agentctl agents receipt AGENT -o json")
	}
	receipt := *d.Receipt
	d.Receipt = nil
	return receipt, &d, nil
}

// receiptKeys reads the keys in a file, or fetches the published ones.
func (t *tool) receiptKeys(ctx context.Context, file string) (handoff.KeySet, error) {
	if file == "" {
		return t.publishedKeys(ctx)
	}
	text, err := t.openText("--jwks", file)
	if err != nil {
		return handoff.KeySet{}, err
	}
	keys, err := handoff.ParseKeySet(text)
	if err != nil {
		return keys, invalidf("--jwks: %w", err)
	}
	return keys, nil
}

// publishedKeys fetches the keys without a credential: whoever verifies a receipt may have no account.
func (t *tool) publishedKeys(ctx context.Context) (handoff.KeySet, error) {
	r, err := t.store().Resolve(t.app.Lookup, profile.Flags{Profile: t.profile, BaseURL: t.baseURL})
	if errors.Is(err, profile.ErrNoAPI) {
		return handoff.KeySet{}, withNext(err, "Or give the keys in a file: --jwks FILE")
	}
	if err != nil {
		return handoff.KeySet{}, err
	}
	api, err := t.newClient(r.BaseURL, nil)
	if err != nil {
		return handoff.KeySet{}, err
	}
	res, err := api.Do(ctx, http.MethodGet, keysPath, nil)
	if err != nil {
		return handoff.KeySet{}, err
	}
	defer res.Body.Close() //nolint:errcheck // the answer was read
	text, err := readAll(res.Body, maxRequest)
	if err != nil {
		return handoff.KeySet{}, err
	}
	keys, err := handoff.ParseKeySet(text)
	if err != nil {
		return keys, fmt.Errorf("the API publishes no usable keys: %w", err)
	}
	return keys, nil
}

// showVerified prints what a valid receipt says. What a file states around the receipt must be the same: a reader may
// have looked only at that.
func (t *tool) showVerified(claims handoff.ReceiptClaims, stated *client.Deletion) error {
	facts, err := json.Marshal(claims.DeletionFacts)
	if err != nil {
		return err
	}
	var signed client.Deletion
	if err := json.Unmarshal(facts, &signed); err != nil {
		return err
	}
	if stated != nil && !sameJSON(signed, *stated) {
		return errors.New("the receipt is valid, but FILE states something else than the receipt in it")
	}
	return t.show(result{value: claims, names: []string{signed.AgentID}, table: func(w io.Writer) error {
		s := asScreen(w)
		fmt.Fprintln(s, s.in(green, "The receipt is valid."))
		return t.printDeletion(s, &signed, field{"Organization", claims.OrganizationID},
			field{"Signed", t.moment(claims.IssuedAt.Time())})
	}})
}

func sameJSON(a, b client.Deletion) bool {
	textA, errA := json.Marshal(a)
	textB, errB := json.Marshal(b)
	return errA == nil && errB == nil && bytes.Equal(textA, textB)
}
