import { page } from "../page";

let loaded: Promise<void> | undefined;

/** Resolves when the styles of parts that are loaded later are there. */
export function laterStyle(): Promise<void> {
  loaded ??= new Promise<void>((resolve, reject) => {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = page.laterStyle;
    link.onload = () => resolve();
    link.onerror = () => {
      link.remove();
      loaded = undefined; // the next part tries again
      reject(new Error("the styles could not be loaded"));
    };
    document.head.append(link);
  });
  return loaded;
}
