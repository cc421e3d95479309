//go:build unix

package consoletest_test

import (
	"fmt"
	"net/http"

	"agents.example/controlplane/emulators/consoletest"
)

// refusal returns a response with an error of the service.
func refusal(status int, code, detail string) consoletest.Response {
	return consoletest.Response{
		Status: status,
		Body:   fmt.Sprintf(`{"code": %q, "detail": %q, "status": %d, "request_id": "r-1"}`, code, detail, status),
	}
}

// refuseOnce makes the next request of a method be refused as one with an expired token.
func refuseOnce(p *consoletest.Page, method, part string) {
	expired := refusal(http.StatusUnauthorized, "invalid_token", "The token has expired.")
	expired.Times = 1
	p.Respond(method, part, expired)
}

// loseAnswers loses the service's answers to the changes that the page sends, until restoreAnswers.
const (
	loseAnswers = `(() => {
	const get = window.fetch;
	window.restoreAnswers = () => { window.fetch = get; };
	window.fetch = async (address, options) => {
		const answer = await get(address, options);
		if (options?.method === "PATCH" && !String(address).includes("dry_run")) {
			throw new TypeError("the connection was reset");
		}
		return answer;
	};
	return 0;
})()`
	restoreAnswers = `(window.restoreAnswers(), 0)`
	isUnknown      = "It is not known whether the change was made."
)
