import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import { Icon } from "./icons";

export interface FieldProps {
  label: ComponentChildren;
  hint?: ComponentChildren;
  /** What is wrong with the value, one sentence for each rule that it breaks. */
  wrong?: string[] | undefined;
  /** The control, given the attributes that connect it with its label, hint and errors. */
  children: (control: ControlAttributes) => ComponentChildren;
}

export interface ControlAttributes {
  id: string;
  "aria-describedby"?: string;
  "aria-invalid"?: "true";
}

/** A labeled control of a form. */
export function Field({ label, hint, wrong = [], children }: FieldProps) {
  const id = useId();
  const described = [hint === undefined ? "" : `${id}-hint`, wrong.length > 0 ? `${id}-wrong` : ""];
  const attributes: ControlAttributes = { id };
  const ids = described.filter((part) => part !== "").join(" ");
  if (ids !== "") {
    attributes["aria-describedby"] = ids;
  }
  if (wrong.length > 0) {
    attributes["aria-invalid"] = "true";
  }
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children(attributes)}
      {hint === undefined ? null : (
        <span class="hint" id={`${id}-hint`}>
          {hint}
        </span>
      )}
      {wrong.length === 0 ? null : (
        <span class="stack-tight" id={`${id}-wrong`}>
          {wrong.map((sentence) => (
            <span class="wrong" key={sentence}>
              <Icon name="error" />
              {sentence}
            </span>
          ))}
        </span>
      )}
    </div>
  );
}

interface InputProps {
  label: ComponentChildren;
  value: string;
  onInput: (value: string) => void;
  hint?: ComponentChildren;
  wrong?: string[] | undefined;
  type?: "text" | "password" | "search" | "date" | "datetime-local" | "number" | "email";
  placeholder?: string;
  required?: boolean;
  maxLength?: number;
  autofocus?: boolean;
  mono?: boolean;
}

export function TextField(props: InputProps) {
  const { label, hint, wrong, value, onInput, type = "text", mono = false } = props;
  return (
    <Field label={label} hint={hint} wrong={wrong}>
      {(control) => (
        <input
          {...control}
          class={mono ? "input mono" : "input"}
          type={type as "text"}
          value={value}
          placeholder={props.placeholder}
          required={props.required}
          maxLength={props.maxLength}
          autofocus={props.autofocus}
          autocomplete="off"
          spellcheck={!mono}
          onInput={(event) => onInput(event.currentTarget.value)}
        />
      )}
    </Field>
  );
}

export function TextArea(props: Omit<InputProps, "type"> & { rows?: number }) {
  const { label, hint, wrong, value, onInput, rows = 4, mono = false } = props;
  return (
    <Field label={label} hint={hint} wrong={wrong}>
      {(control) => (
        <textarea
          {...control}
          class={mono ? "input mono" : "input"}
          rows={rows}
          value={value}
          placeholder={props.placeholder}
          autocomplete="off"
          spellcheck={!mono}
          onInput={(event) => onInput(event.currentTarget.value)}
        />
      )}
    </Field>
  );
}

export interface Option {
  value: string;
  label: string;
  /** Why the option cannot be chosen. */
  unavailable?: string | undefined;
}

export function Select(props: {
  label: ComponentChildren;
  value: string;
  options: Option[];
  onChange: (value: string) => void;
  hint?: ComponentChildren;
  wrong?: string[] | undefined;
}) {
  const { label, hint, wrong, value, options, onChange } = props;
  return (
    <Field label={label} hint={hint} wrong={wrong}>
      {(control) => (
        <select {...control} class="input" value={value} onChange={(event) => onChange(event.currentTarget.value)}>
          {options.map((option) => (
            <option key={option.value} value={option.value} disabled={Boolean(option.unavailable)}>
              {option.unavailable ? `${option.label} (${option.unavailable})` : option.label}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

export function Checkbox(props: {
  label: ComponentChildren;
  checked: boolean;
  onChange: (checked: boolean) => void;
  hint?: ComponentChildren;
}) {
  const id = useId();
  return (
    <div class="check">
      <input
        id={id}
        type="checkbox"
        checked={props.checked}
        aria-describedby={props.hint === undefined ? undefined : `${id}-hint`}
        onChange={(event) => props.onChange(event.currentTarget.checked)}
      />
      <span>
        <label for={id}>{props.label}</label>
        {props.hint === undefined ? null : (
          <span class="quiet small" id={`${id}-hint`}>
            {" "}
            {props.hint}
          </span>
        )}
      </span>
    </div>
  );
}
