import { render } from "preact";
import { App } from "./app";
import { applyTheme } from "./theme";
import { keepFocus } from "./ui/kept-focus";

applyTheme();
const root = document.getElementById("app");
if (root !== null) {
  render(<App />, root);
  keepFocus();
}
