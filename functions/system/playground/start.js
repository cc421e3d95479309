"use strict";

// The label of the samples that the reader looked at last. Other operations begin with it.
let preferred = "";

// samples shows x-codeSamples of an operation as tabs above its responses.
function samples() {
  return { wrapComponents: { responses: (Responses, system) => (props) => withSamples(Responses, system, props) } };
}

function withSamples(Responses, { React, getComponent }, props) {
  const element = React.createElement;
  const operation = ["paths", props.path, props.method, "x-codeSamples"];
  const all = props.specSelectors.specJson().getIn(operation)?.toJS() ?? [];
  return element(
    React.Fragment,
    null,
    all.length > 0 && element(Tabs, { all, React, HighlightCode: getComponent("HighlightCode", true) }),
    element(Responses, props),
  );
}

function Tabs({ all, React, HighlightCode }) {
  const element = React.createElement;
  const [label, choose] = React.useState(preferred);
  const shown = all.find((sample) => sample.label === label) ?? all[0];
  const tab = (sample) =>
    element(
      "button",
      {
        key: sample.label,
        type: "button",
        role: "tab",
        "aria-selected": sample === shown,
        className: sample === shown ? "tab-item active" : "tab-item",
        style: { background: "none", border: 0, padding: "0 24px 0 0" },
        onClick: () => choose((preferred = sample.label)),
      },
      element("h4", { className: "opblock-title" }, element("span", null, sample.label)),
    );
  return element(
    "div",
    { className: "opblock-section" },
    element(
      "div",
      { className: "opblock-section-header" },
      element("div", { className: "tab-header", role: "tablist", "aria-label": "Code samples" }, all.map(tab)),
    ),
    element(
      "div",
      { className: "responses-inner", role: "tabpanel" },
      element(
        HighlightCode,
        { language: shown.lang === "Shell" ? "bash" : "javascript", className: "sample", canCopy: true },
        shown.source,
      ),
    ),
  );
}

// Tokens stay in the page's memory: they are not persisted, and nothing is sent anywhere but to this service.
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#playground",
  deepLinking: true,
  displayRequestDuration: true,
  persistAuthorization: false,
  plugins: [samples],
  tryItOutEnabled: true,
  validatorUrl: null,
});
