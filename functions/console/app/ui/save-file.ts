/** How long the browser may take to begin the download. */
const startTime = 10_000;

/** Saves a file on the person's computer. */
export function saveFile(file: Blob, name: string): void {
  const address = URL.createObjectURL(file);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), startTime);
}
