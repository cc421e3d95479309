package consoletest_test

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
