/** Parts of the page give focus a new place themselves where they know a better one, such as a field that appears. */
const patience = 100;

/**
 * Moves focus to the nearest heading when the element that has it goes away, such as a row that was removed or a box
 * that was closed. A browser would start from the top of the page, and a screen reader would say nothing.
 */
export function keepFocus(): void {
  let place: Element[] = [];
  let timer: number | undefined;
  const follow = () => {
    clearTimeout(timer);
    place = focusPlace();
  };
  addEventListener("focusin", follow);
  addEventListener("click", follow, { capture: true }); // where nothing takes the focus, none has it
  new MutationObserver(() => {
    if (place[0]?.isConnected === false) {
      timer = setTimeout(returnFocus, patience, place);
      place = [];
    }
  }).observe(document.body, { childList: true, subtree: true });
}

/** The element that has the focus, and those around it. It is empty if none has. */
export function focusPlace(): Element[] {
  const place: Element[] = [];
  for (let one = document.activeElement; one !== null && one !== document.body; one = one.parentElement) {
    place.push(one);
  }
  return place;
}

/** Moves focus to where it was. If that element is gone and no other has the focus, the nearest heading gets it. */
export function returnFocus(place: Element[]): void {
  const [element] = place;
  if (element instanceof HTMLElement && element.isConnected) {
    element.focus();
  } else if (document.activeElement === document.body) {
    const left = place.filter((one) => one.isConnected);
    const heading = left.map((one) => one.querySelector<HTMLElement>("h1, h2, h3")).find((found) => found);
    if (heading) {
      heading.tabIndex = -1;
      heading.focus({ preventScroll: true });
    }
  }
}
