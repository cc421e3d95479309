/**
 * A document for xterm.js under a policy that forbids inline styles. The library writes style sheets into elements and
 * styles into attributes; both have a way that the policy allows: sheets of the document, and properties of an element.
 */
export function strictDocument(sheets: CSSStyleSheet[]): Document {
  const create = (name: string): HTMLElement => {
    const element = document.createElement(name);
    if (name === "style") {
      const sheet = new CSSStyleSheet();
      sheets.push(sheet);
      document.adoptedStyleSheets.push(sheet);
      Object.defineProperty(element, "textContent", { set: (text: string) => sheet.replaceSync(text) });
    } else {
      element.setAttribute = (attribute: string, value: string) => {
        if (attribute === "style") {
          element.style.cssText = value;
        } else {
          Element.prototype.setAttribute.call(element, attribute, value);
        }
      };
    }
    return element;
  };
  return new Proxy(document, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (name === "createElement") {
        return create;
      }
      return typeof value === "function" ? value.bind(target) : value;
    },
    set: (target, name, value) => Reflect.set(target, name, value, target),
  });
}

/** Removes the sheets that a terminal has added. */
export function removeSheets(sheets: CSSStyleSheet[]): void {
  document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => !sheets.includes(sheet));
}
