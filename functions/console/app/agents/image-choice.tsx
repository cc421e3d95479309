import type { Image, ImageVersion, Plan } from "@agents.example/client/schema";
import { Select } from "../ui/field";
import { planName } from "../ui/format";

/** Where the service has what agents can run. */
export const imagesPath = "/api/v1/images";

/** The image of agents whose creator chooses none. */
const usualImage = "default";

/** What stands in a selection: the id, and a version unless it is the released one. */
export const selectionOf = (image: Image, version: string): string =>
  version === image.default_version ? image.id : `${image.id}@${version}`;

/** The image and the version that a selection names. */
export function chosenOf(images: Image[], selection: string): { image: Image; version: ImageVersion } | undefined {
  const [id, name] = selection === "" ? [usualImage] : selection.split("@");
  const image = images.find((one) => one.id === id) ?? images[0];
  const version = image?.versions.find((one) => one.version === (name ?? image.default_version));
  return image === undefined || version === undefined ? undefined : { image, version };
}

/** Whether there is anything to choose. */
export const isChoice = (images: Image[]): boolean =>
  images.length > 1 || images.some(({ versions }) => versions.length > 1);

/** Why agents of a plan cannot run an image. */
export function tooSmall(image: Image, plan: string, plans: Plan[]): string | undefined {
  const rank = (id: string) => plans.findIndex((one) => one.id === id);
  return image.min_plan !== null && rank(plan) < rank(image.min_plan)
    ? `needs the size ${planName(image.min_plan)}`
    : undefined;
}

/** What a version is called in a list. */
export function versionLabel(image: Image, { version, state }: ImageVersion): string {
  if (version === image.default_version) {
    return `${version} (released)`;
  }
  return state === "deprecated" ? `${version} (deprecated)` : version;
}

/** The choice of what a new agent runs. */
export function ImageChoice(props: {
  images: Image[];
  plans: Plan[];
  plan: string;
  value: string;
  onChange: (selection: string) => void;
  wrong: string[];
}) {
  const { images, plans, plan, value, onChange, wrong } = props;
  const chosen = chosenOf(images, value);
  if (chosen === undefined) {
    return null;
  }
  const { image, version } = chosen;
  const choose = (id: string) => {
    const next = images.find((one) => one.id === id);
    if (next !== undefined) {
      onChange(next.id);
    }
  };
  return (
    <>
      <Select
        label="Image"
        value={image.id}
        options={images.map((one) => ({
          value: one.id,
          label: one.name,
          unavailable: tooSmall(one, plan, plans),
        }))}
        onChange={choose}
        hint={<About image={image} />}
        wrong={wrong}
      />
      {image.versions.length < 2 ? null : (
        <Select
          label="Version"
          value={version.version}
          options={image.versions.map((one) => ({ value: one.version, label: versionLabel(image, one) }))}
          onChange={(name) => onChange(selectionOf(image, name))}
          hint={version.notes === "" ? "The agent moves to newer versions by itself." : version.notes}
        />
      )}
    </>
  );
}

function About({ image }: { image: Image }) {
  return (
    <>
      {image.description === "" ? "What the agent runs. It cannot be another image later." : image.description}{" "}
      {image.docs_url === null ? null : (
        <a href={image.docs_url} target="_blank" rel="noreferrer">
          Documentation
        </a>
      )}
    </>
  );
}
