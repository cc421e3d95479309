// What the TypeScript client uses of openapi-fetch, so that samples can be checked where npm is not installed.
type WithRequired<P> = { [K in keyof P]-?: {} extends Pick<P, K> ? never : K }[keyof P];

export type ParamsOption<T> = T extends { parameters: infer P }
  ? WithRequired<P> extends never
    ? { params?: P }
    : { params: P }
  : { params?: never };

export type RequestBodyOption<T> = T extends { requestBody: { content: { "application/json": infer B } } }
  ? { body: B }
  : T extends { requestBody?: { content: { "application/json": infer B } } }
    ? { body?: B }
    : { body?: never };

export default function createFetchClient<Paths>(options: object): { request: unknown; paths: Paths };
