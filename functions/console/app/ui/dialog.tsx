import type { ComponentChildren, DialogHTMLAttributes } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { DialogAnnouncements } from "./announce";
import { Button } from "./button";
import { focusPlace, returnFocus } from "./kept-focus";

export interface DialogProps {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  /** The button that does what the dialog is about. A button that cancels stands before it. */
  action?: ComponentChildren;
  /** The focus begins on the button that cancels, because something is lost. */
  careful?: boolean;
  /** The buttons at the end, if they are others than to cancel and the action. */
  foot?: ComponentChildren;
  /** Makes the content a form. */
  onSubmit?: () => void | Promise<void>;
  wide?: boolean;
  /** Asks before the dialog closes by Escape, because something was typed. */
  typed?: boolean;
}

/**
 * A modal dialog. Escape closes it, and focus returns to what opened it. If it is a form that was refused, the first
 * field that is wrong gets the focus.
 */
export function Dialog(props: DialogProps) {
  const { title, onClose, children, onSubmit, wide = false, typed = false } = props;
  const element = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    const opener = focusPlace();
    element.current?.showModal();
    return () => returnFocus(opener);
  }, []);
  const submitted = useSubmitted(element);
  const close = () => {
    if (!typed || confirm("Close and lose what you typed?")) {
      onClose();
    }
  };
  const head = (
    <div class="page-head">
      <h2 id={heading}>{title}</h2>
      <span class="actions">
        <Button kind="plain" icon="close" iconOnly onClick={close}>
          Close
        </Button>
      </span>
    </div>
  );
  const content = (
    <>
      <div class="content">
        {head}
        {children}
      </div>
      <Foot {...props} />
    </>
  );
  return (
    <dialog ref={element} class={wide ? "dialog wide" : "dialog"} aria-labelledby={heading} {...keys(close)}>
      {onSubmit === undefined ? (
        <div class="stack">{content}</div>
      ) : (
        <form
          noValidate
          onSubmit={(event) => {
            event.preventDefault();
            void Promise.resolve(onSubmit()).then(submitted);
          }}
        >
          {content}
        </form>
      )}
      <DialogAnnouncements />
    </dialog>
  );
}

function Foot({ action, careful = false, foot, onClose }: DialogProps) {
  if (action === undefined) {
    return foot === undefined ? null : <div class="foot">{foot}</div>;
  }
  return (
    <div class="foot">
      <Button onClick={onClose} autofocus={careful}>
        Cancel
      </Button>
      {action}
    </div>
  );
}

/** Returns a function that moves to the first field that is wrong, or else to the failure, once it is there. */
function useSubmitted(dialog: { current: HTMLElement | null }): () => void {
  const [attempts, setAttempts] = useState(0);
  useEffect(() => {
    if (attempts === 0) {
      return;
    }
    const first = dialog.current?.querySelector<HTMLElement>('[aria-invalid="true"]');
    if (first) {
      first.focus();
    } else {
      // The advice about a failure is next to it.
      dialog.current?.querySelector('[role="alert"]')?.parentElement?.scrollIntoView({ block: "end" });
    }
  }, [attempts]);
  return () => setAttempts((count) => count + 1);
}

/**
 * Makes Escape, and the gestures that mean the same, ask before the dialog closes. Chromium lets a page prevent that
 * only once between two other inputs, unless the page takes the key itself. An Enter that opened the dialog and is
 * still held does not confirm it.
 */
function keys(close: () => void): DialogHTMLAttributes {
  return {
    onKeyDown: (event) => {
      if (event.key === "Escape" && !event.isComposing) {
        event.preventDefault();
        if (!event.repeat) {
          close();
        }
      } else if (event.key === "Enter" && event.repeat && event.target instanceof HTMLButtonElement) {
        event.preventDefault();
      }
    },
    onCancel: (event) => {
      if (event.cancelable) {
        event.preventDefault();
        close();
      }
    },
    onClose: ({ currentTarget }) => {
      // The browser closed it. Without this, the page would wait for a dialog that is not there.
      if (currentTarget.isConnected) {
        currentTarget.showModal();
        close();
      }
    },
  };
}
