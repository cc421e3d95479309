import { useEffect, useId, useRef } from "preact/hooks";
import { onSignOut } from "../session/session";
import { Store, useStore } from "../store";
import { Button } from "./button";
import { Icon } from "./icons";
import { type Tone, toneIcons } from "./tone";

interface Toast {
  id: number;
  text: string;
  tone: Tone;
}

const toasts = new Store<Toast[]>([]);
const said = new Store<string>("");
let lastToast = 0;
const toastTime = 6_000;

onSignOut(() => {
  toasts.set([]);
  said.set("");
});

/** Shows that an action succeeded, for some seconds, and says it to assistive technology. */
export function toast(text: string, tone: Tone = "good"): void {
  lastToast++;
  toasts.set([...toasts.value, { id: lastToast, text, tone }].slice(-3));
  announce(text);
}

/** Says something to assistive technology without interrupting, such as a change of a status. */
export function announce(text: string): void {
  said.set(text);
}

/** The open dialogs. The last one has the toasts and announcements, because the page behind it is inert. */
const dialogs = new Store<string[]>([]);

/** The place of toasts and announcements. The page has one. */
export function Announcements() {
  const text = useStore(said);
  const hidden = useStore(dialogs).length > 0;
  return (
    <>
      <Announced text={text} />
      {hidden ? null : <Toasts />}
    </>
  );
}

/** The place of toasts and announcements while a dialog is open. */
export function DialogAnnouncements() {
  const id = useId();
  const before = useRef(said.value); // which was said on the page
  const text = useStore(said);
  useEffect(() => {
    dialogs.set([...dialogs.value, id]);
    return () => dialogs.set(dialogs.value.filter((other) => other !== id));
  }, []);
  const hidden = useStore(dialogs).at(-1) !== id;
  return (
    <>
      <Announced text={text === before.current ? "" : text} />
      {hidden ? null : <Toasts />}
    </>
  );
}

function Announced({ text }: { text: string }) {
  return (
    <div class="visually-hidden" role="status" aria-live="polite">
      {text}
    </div>
  );
}

function Toasts() {
  const shown = useStore(toasts);
  return shown.length === 0 ? null : (
    <section class="toasts" aria-label="Notifications">
      {shown.map((item) => (
        <ToastItem key={item.id} item={item} />
      ))}
    </section>
  );
}

function ToastItem({ item }: { item: Toast }) {
  const dismiss = () => toasts.set(toasts.value.filter((other) => other.id !== item.id));
  useEffect(() => {
    const timer = setTimeout(dismiss, toastTime);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div class="toast">
      <span class={`badge tone-${item.tone}`}>
        <Icon name={toneIcons[item.tone]} />
      </span>
      <span>{item.text}</span>
      <Button kind="plain" icon="close" iconOnly onClick={dismiss}>
        Dismiss
      </Button>
    </div>
  );
}
