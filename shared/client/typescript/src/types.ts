import type { ParamsOption, RequestBodyOption } from "openapi-fetch";

import type { paths, Rehearsal } from "./schema.js";

/** The methods of the API. */
export type Method = "get" | "post" | "put" | "patch" | "delete";

type Success = 200 | 201 | 202 | 204;

type JSONOf<Response> = Response extends { content: { "application/json": infer Body } }
  ? Exclude<Body, Rehearsal>
  : Response extends { content?: never }
    ? undefined
    : never;

/** What an operation returns: the JSON of its successful answer, or undefined if that has no body. */
export type Data<Operation> = Operation extends { responses: infer Responses }
  ? { [Status in keyof Responses & Success]: JSONOf<Responses[Status]> }[keyof Responses & Success]
  : never;

/** The operation of a path and a method. */
export type OperationOf<P extends keyof paths, M extends Method> = paths[P] extends { [K in M]: infer Operation }
  ? Operation
  : never;

/** The paths that have an operation with a method which answers with JSON or without a body. */
export type PathWith<M extends Method> = {
  [P in keyof paths]: [Data<OperationOf<P, M>>] extends [never] ? never : P;
}[keyof paths];

/** The query parameters of a path's GET operation. */
export type Query<P extends keyof paths> =
  OperationOf<P, "get"> extends { parameters: { query?: infer Q } } ? NonNullable<Q> : never;

/** The paths of lists that come in pages. */
export type ListPath = {
  [P in PathWith<"get">]: [Query<P>] extends [never] ? never : "cursor" extends keyof Query<P> ? P : never;
}[PathWith<"get">];

/** An item of a list. */
export type Item<P extends ListPath> = Data<OperationOf<P, "get">> extends (infer T)[] ? T : never;

/** Options of every call. */
export interface CallOptions {
  /** Ends the call, also between two attempts. The call then throws the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Receives the successful response, for example to read its `ETag`. The body is used up. */
  onResponse?: ((response: Response) => void) | undefined;
}

/** The parameters, the body and the options of a call. */
export type Init<Operation> = ParamsOption<Operation> & RequestBodyOption<Operation> & CallOptions;

/** The arguments after the path: optional unless the operation requires a parameter or a body. */
export type Arguments<Operation> = {} extends Init<Operation> ? [init?: Init<Operation>] : [init: Init<Operation>];

/** Calls the operation of a path. */
export type Call<M extends Method> = <P extends PathWith<M>>(
  path: P,
  ...init: Arguments<OperationOf<P, M>>
) => Promise<Data<OperationOf<P, M>>>;
