//go:build unix

package consoletest

import (
	"encoding/json"
	"fmt"

	"github.com/chromedp/cdproto/page"
)

// RunFirst runs a script in each document that the page opens from now on, before the document's scripts.
func (p *Page) RunFirst(script string) {
	p.t.Helper()
	call(p, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
}

// SignIn gives the session token to each document of the page's origin: the tab's storage has the session when the
// console first loads. After signing out, the tab stays signed out.
func (p *Page) SignIn(token string) {
	p.t.Helper()
	session, err := json.Marshal(map[string]string{"kind": "token", "token": token})
	if err != nil {
		p.t.Fatal(err)
	}
	p.RunFirst(fmt.Sprintf(`if (location.origin === %q && !sessionStorage.getItem("consoletest.visited")) {
		sessionStorage.setItem("consoletest.visited", "yes");
		sessionStorage.setItem(%q, %q);
	}`, p.tab.base, sessionKey, session))
}

// sessionKey is where the console keeps its session.
const sessionKey = "console.session"
