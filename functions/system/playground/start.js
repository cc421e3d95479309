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

// guide shows the first paragraph of the description, and the rest when the reader opens it: the operations come first.
function guide() {
  const first = (original) => (state, ...rest) => (original(state, ...rest) ?? "").split("\n\n")[0];
  const wrapped = (Info, system) => (props) => {
    const { React, specSelectors } = system;
    const [, ...rest] = (specSelectors.specJson().getIn(["info", "description"]) ?? "").split("\n\n");
    return React.createElement(
      React.Fragment,
      null,
      React.createElement(Info, props),
      rest.length > 0 && React.createElement(Guide, { ...system, text: rest.join("\n\n") }),
    );
  };
  return {
    statePlugins: { spec: { wrapSelectors: { selectInfoDescriptionField: first } } },
    wrapComponents: { InfoContainer: wrapped },
  };
}

function Guide({ React, getComponent, text }) {
  const [open, setOpen] = React.useState(location.hash === "#guide");
  const Markdown = getComponent("Markdown", true);
  return React.createElement(
    "details",
    { id: "guide", className: "renderedMarkdown", open, onToggle: (event) => setOpen(event.currentTarget.open) },
    React.createElement("summary", null, "Guide: authentication, errors, lists, limits, rehearsals, webhooks"),
    open && React.createElement(Markdown, { source: text }),
  );
}

// Tokens stay in the page's memory: they are not persisted, and nothing is sent anywhere but to this service.
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#playground",
  deepLinking: true,
  // Tags are closed at first, and schemas are shown with the operations: all of them would be thousands of elements.
  docExpansion: "none",
  defaultModelsExpandDepth: -1,
  filter: true,
  displayRequestDuration: true,
  persistAuthorization: false,
  plugins: [samples, guide],
  tryItOutEnabled: true,
  validatorUrl: null,
});
