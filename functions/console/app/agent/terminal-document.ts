/**
 * Lets xterm.js run under a policy that forbids inline styles. The library writes style sheets into elements and styles
 * into attributes; both have a way that the policy allows: sheets of the document, and properties of an element. It
 * creates elements with the document of the page, whatever its options say. Returns how to end that.
 */
export function allowTerminalStyles(): () => void {
  const sheets: CSSStyleSheet[] = [];
  const create = document.createElement.bind(document);
  document.createElement = ((name: string, options?: ElementCreationOptions) => {
    if (name !== "style") {
      return withProperties(create(name, options));
    }
    const sheet = new CSSStyleSheet();
    sheets.push(sheet);
    document.adoptedStyleSheets.push(sheet);
    const stand = create("template"); // the policy refuses an empty sheet, too
    Object.defineProperty(stand, "textContent", { set: (text: string) => sheet.replaceSync(text) });
    return stand;
  }) as typeof document.createElement;
  return () => {
    Reflect.deleteProperty(document, "createElement"); // the method of its class is there again
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => !sheets.includes(sheet));
  };
}

/** Makes the attribute style of an element, and of its copies, its properties. */
function withProperties<E extends HTMLElement>(element: E): E {
  element.setAttribute = (attribute: string, value: string) => {
    if (attribute === "style") {
      element.style.cssText = value;
    } else {
      Element.prototype.setAttribute.call(element, attribute, value);
    }
  };
  element.cloneNode = (deep?: boolean) => {
    const text = element.style.cssText;
    element.removeAttribute("style"); // a copy would write it into its attribute
    const copy = withProperties(Node.prototype.cloneNode.call(element, deep) as E);
    element.style.cssText = text;
    copy.style.cssText = text;
    return copy;
  };
  return element;
}
