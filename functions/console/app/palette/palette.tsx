import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { AskAction } from "../agent/actions";
import { announce, DialogAnnouncements } from "../ui/announce";
import { plural } from "../ui/format";
import { Icon } from "../ui/icons";
import { focusPlace, returnFocus } from "../ui/kept-focus";
import { useCommands } from "./commands";
import { type Asked, type Command, matching } from "./match";
import { paletteKeys } from "./opener";

/** Finds agents, pages and actions by their words. The dialog of an action takes its place. */
export function Palette({ onClose }: { onClose: () => void }) {
  const [asked, setAsked] = useState<Asked>();
  const opener = useRef(focusPlace());
  const close = () => {
    onClose();
    returnFocus(opener.current);
  };
  return asked === undefined ? (
    <Finder onClose={close} onLeave={onClose} ask={setAsked} />
  ) : (
    <AskAction {...asked} onClose={close} />
  );
}

function Finder(props: {
  onClose: () => void;
  /** Closes it after a command that moves the focus itself. */
  onLeave: () => void;
  ask: (asked: Asked) => void;
}) {
  const { onClose, onLeave, ask } = props;
  const [search, setSearch] = useState("");
  const [chosen, setChosen] = useState(0);
  const dialog = useRef<HTMLDialogElement>(null);
  const list = useId();
  const shown = matching(useCommands(), search);
  const at = Math.min(chosen, shown.length - 1);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  useLayoutEffect(() => document.getElementById(`${list}-${at}`)?.scrollIntoView({ block: "nearest" }), [at, search]);
  useCount(search, shown.length);
  const run = (command: Command | undefined) => {
    if (command !== undefined) {
      dialog.current?.close();
      const asked = command.run();
      if (asked) {
        ask(asked);
      } else {
        onLeave();
      }
    }
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && shown.length > 0) {
      event.preventDefault();
      setChosen((at + step + shown.length) % shown.length);
    } else if (event.key === "Enter" && !event.isComposing) {
      event.preventDefault();
      run(shown[at]);
    }
  };
  return (
    <dialog
      ref={dialog}
      class="dialog palette"
      aria-label="Commands"
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => event.target === dialog.current && onClose()}
    >
      <div class="stack">
        <input
          class="input"
          role="combobox"
          aria-label="Search agents, pages and actions"
          aria-expanded="true"
          aria-controls={list}
          aria-activedescendant={at < 0 ? undefined : `${list}-${at}`}
          aria-autocomplete="list"
          placeholder="Search agents, pages and actions"
          autocomplete="off"
          spellcheck={false}
          autofocus
          value={search}
          onInput={(event) => {
            setSearch(event.currentTarget.value);
            setChosen(0);
          }}
          onKeyDown={onKeyDown}
        />
        <Options list={list} shown={shown} at={at} onChoose={setChosen} onRun={run} />
        {shown.length === 0 ? <p class="quiet none">Nothing has these words.</p> : null}
        <p class="keys small quiet">
          <kbd>↑</kbd> <kbd>↓</kbd> choose <kbd>Enter</kbd> go <kbd>Esc</kbd> close. Anywhere:{" "}
          <kbd>{paletteKeys}</kbd> opens this. In a list of agents: <kbd>↑</kbd> <kbd>↓</kbd> <kbd>Home</kbd>{" "}
          <kbd>End</kbd>. In the search of a log: <kbd>Enter</kbd> <kbd>Shift Enter</kbd> go from match to match.
        </p>
      </div>
      <DialogAnnouncements />
    </dialog>
  );
}

/** How long a person may pause while typing before the number of commands is said, in milliseconds. */
const typingPause = 500;

function useCount(search: string, count: number): void {
  useEffect(() => {
    if (search !== "") {
      const timer = setTimeout(() => announce(`${plural(count, "command")}.`), typingPause);
      return () => clearTimeout(timer);
    }
    return undefined;
  }, [search, count]);
}

function Options(props: {
  list: string;
  shown: Command[];
  at: number;
  onChoose: (position: number) => void;
  onRun: (command: Command) => void;
}) {
  const { list, shown, at, onChoose, onRun } = props;
  const groups = [...new Set(shown.map(({ group }) => group))];
  return (
    <div class="options" role="listbox" id={list} aria-label="Commands">
      {groups.map((group, position) => (
        <div key={group} role="group" aria-labelledby={`${list}-group-${position}`}>
          <div class="small quiet group" id={`${list}-group-${position}`}>
            {group}
          </div>
          {shown.map((command, i) =>
            command.group !== group ? null : (
              <div
                key={command.id}
                id={`${list}-${i}`}
                class="option"
                role="option"
                aria-selected={i === at}
                onPointerMove={() => i !== at && onChoose(i)}
                onClick={() => onRun(command)}
              >
                <Icon name={command.icon} />
                <span class="cut">{command.text}</span>
                {command.hint === undefined ? null : <span class="small quiet">{command.hint}</span>}
              </div>
            ),
          )}
        </div>
      ))}
    </div>
  );
}
